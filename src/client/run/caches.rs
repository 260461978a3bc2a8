//! Drops the kernel's caches before a run, so that all runs start with empty caches. Refused on a host with a database
//! server.

use std::fs::OpenOptions;
use std::io::Write;

use crate::source::files::Root;

/// Servers that rely on the page cache, or whose disk would be busy while other programs fill the cache again.
const DATABASES: [&str; 19] = [
    "mysqld",
    "mariadbd",
    "postgres",
    "postmaster",
    "mongod",
    "redis-server",
    "valkey-server",
    "keydb-server",
    "clickhouse-serv",
    "db2sysc",
    "sqlservr",
    "firebird",
    "influxd",
    "cockroach",
    "etcd",
    "arangod",
    "ndbmtd",
    "ndbd",
    "memcached",
];
/// The prefix of Oracle's processes, such as `ora_pmon_NAME`.
const ORACLE: &str = "ora_";

/// Writes dirty pages and drops all caches. An error is a sentence.
pub fn drop_caches(root: &Root, is_forced: bool) -> Result<(), String> {
    let server = root
        .process_names()
        .into_iter()
        .find(|name| is_database(name));
    if let Some(server) = server.filter(|_| !is_forced) {
        return Err(format!(
            "caches are not dropped, since the database server `{server}` runs here and would have to read \
             everything from disk again: omit --drop-caches, or use --force-drop-caches"
        ));
    }
    let path = root.0.join("proc/sys/vm/drop_caches");
    let cannot = |error| {
        format!(
            "cannot drop caches by writing to {}: {error}; run as root on the host itself, or omit --drop-caches",
            path.display()
        )
    };
    let mut file = OpenOptions::new().write(true).open(&path).map_err(cannot)?;
    rustix::fs::sync();
    file.write_all(b"3\n").map_err(cannot)
}

fn is_database(name: &str) -> bool {
    DATABASES.contains(&name) || name.starts_with(ORACLE)
}
