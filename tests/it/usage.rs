//! How much a snapshot's file system holds: told now and then, and true while it is mounted.

use cowbell::source::{Part, Said};

use crate::host::Host;
use crate::observer::{Observer, reading, volume};

const MOUNTS: &str = "36 35 253:3 / /mnt/my\\040snap ro shared:1 - xfs /dev/mapper/vg0-snap ro\n";
const USAGE: &str = "253:3\t/mnt/my\\040snap\t1000\t400\t4096\n";

fn host() -> Host {
    let mut host = Host::new(&["sda"]);
    let real = host.add_origin("data", &["sda"], 614_400);
    host.add_snapshot("snap", &real, &["sda"], 130_000, "snapshot 13000/130000 16");
    host
}

#[test]
fn what_a_snapshot_holds_is_known_while_it_is_mounted() {
    let (host, mut observer) = (host(), Observer::default());
    let mut held = |seconds: f64, more: &[(Part, &str)]| {
        let texts = [
            (Part::Diskstats, host.diskstats()),
            (Part::Sysfs, host.names()),
            (Part::Dm, host.device_mapper()),
        ];
        let more = more.iter().map(|(part, text)| (*part, text.to_string()));
        let texts = texts.into_iter().chain(more).map(|(part, text)| (part, Said::Text(text)));
        let interval = observer.take(&reading(seconds, texts.collect()));
        let of = |lv| interval.held_on(volume(&interval, lv).0);
        assert_eq!(of("data"), None, "its origin's file system is another");
        (of("snap"), observer.complaint(Part::Usage).map(String::from))
    };
    let known = Some(600 * 4096);
    assert_eq!(held(0.0, &[(Part::Usage, "")]), (None, None));
    assert_eq!(held(1.0, &[(Part::Mounts, MOUNTS)]), (None, None), "it is not zero until it is told");
    assert_eq!(held(2.0, &[(Part::Usage, USAGE)]), (known, None));
    assert_eq!(held(3.0, &[]), (known, None), "it is told rarely");
    assert_eq!(held(4.0, &[(Part::Mounts, "")]), (None, None));
    assert_eq!(
        held(5.0, &[(Part::Mounts, MOUNTS)]),
        (None, None),
        "what is mounted there now may be another"
    );
    let refused = "253:3\t/mnt/my\\040snap\tPermission denied (os error 13)\n";
    let (bytes, complaint) = held(6.0, &[(Part::Usage, refused)]);
    assert_eq!(bytes, None);
    assert!(
        complaint.unwrap().contains("on /mnt/my snap (device 253:3) holds is not known: Permission denied")
    );
}
