//! The page of backups, and the short answer of the overview.

use std::time::Duration;

use crate::daemon::{Start, cowbell, said};
use crate::machine::Machine;
use crate::wait_at_most;

fn headline(page: &str) -> &str {
    let (_, rest) = page.split_once("<p class=\"headline\">").unwrap();
    rest.split_once('<').unwrap().0
}

/// The grades of the signs of a row.
fn signs<'a>(page: &'a str, of: &str) -> Vec<&'a str> {
    let mut rows = page.split("<tr>");
    let row = rows.find(|row| row.contains(&format!(">{of}<"))).unwrap();
    let signs = row.split("class=\"sign state ").skip(1);
    signs.map(|sign| sign.split_once('"').unwrap().0).collect()
}

#[test]
fn each_night_is_a_sign_and_the_next_start_is_that_of_the_crontab() {
    let machine = Machine::new();
    machine.write("etc/cron.d/backup", "0 2 * * * root nightly --all secret\n");
    let daemon = Start::watching(&machine).start();
    let listen = format!("127.0.0.1:{}", daemon.port);
    for (code, expected) in [
        (0, &["ok"][..]),
        (1, &["ok", "critical"]),
        (1, &["ok", "critical", "critical"]),
        (0, &["ok", "critical", "critical", "ok"]),
    ] {
        let exit = format!("exit {code}");
        let mut run = cowbell();
        run.args(["run", "--listen", &listen, "--backup", "--name", "nightly"]);
        said(run.args(["--", "sh", "-c", &exit]));
        wait_at_most(Duration::from_secs(10), "the answer", || {
            let overview = daemon.get("/").body;
            let is_bad = headline(&overview) == "The last backup of nightly is bad";
            (is_bad == (code != 0)).then_some(())
        });
        let page = wait_at_most(Duration::from_secs(10), "the next start", || {
            let page = daemon.get("/backups").body;
            page.contains(">Starts at ").then_some(page)
        });
        assert_eq!(signs(&page, "nightly"), expected);
        assert!(!page.contains("secret"));
    }
}
