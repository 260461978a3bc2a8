//! Empties the kernel's caches before a run, so that each run begins alike; not where a database lives on them.

use std::fs::OpenOptions;
use std::io::Write;

use crate::source::files::Root;

/// Servers that read through the page cache, or that would have to share the disk with whoever reads anew.
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
/// Oracle's processes are called `ora_pmon_NAME` and so on.
const ORACLE: &str = "ora_";

/// Drops all clean caches, with what is dirty written first. An error is one sentence, and nothing was dropped then.
pub fn drop_caches(root: &Root, is_forced: bool) -> Result<(), String> {
    let server = root.process_names().into_iter().find(|name| is_database(name));
    if let Some(server) = server.filter(|_| !is_forced) {
        return Err(format!(
            "the caches are not dropped, since the database server `{server}` runs here and would have to read \
             everything from its disks again: leave --drop-caches out, or say --force-drop-caches instead"
        ));
    }
    let path = root.0.join("proc/sys/vm/drop_caches");
    let cannot = |error| {
        format!(
            "cannot drop the caches by {}: {error}; be root on the host itself, or leave --drop-caches out",
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
