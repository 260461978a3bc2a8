//! How volumes are when the device-mapper does not say it, or says it of some only: LVM's word while it is new, else
//! nothing.

use cowbell::interval::Interval;
use cowbell::source::{Part, ReadResult};
use cowbell::topology::State;

use crate::host::{Host, report, row};
use crate::observer::{Observer, complaint, reading, volume};

/// What is read of this host in every tick.
fn files(host: &Host) -> Vec<(Part, ReadResult)> {
    vec![
        (Part::Diskstats, ReadResult::Text(host.diskstats())),
        (Part::Sysfs, ReadResult::Text(host.names())),
    ]
}

fn with(host: &Host, part: Part, said: ReadResult) -> Vec<(Part, ReadResult)> {
    let mut texts = files(host);
    texts.push((part, said));
    texts
}

fn silent() -> ReadResult {
    ReadResult::Error("the device-mapper has not answered for 0.4 s".into())
}

fn percent(interval: &Interval, lv: &str) -> Option<f64> {
    volume(interval, lv).1.fill.map(|fill| fill.percent())
}

#[test]
fn every_letter_of_lv_attr_is_seen_as_what_it_means() {
    for (attributes, expected) in [
        ("-wi-a-----", State::Ok),
        ("-wi-ao----", State::Ok),
        ("-ri-a-----", State::Ok),
        ("-wi-s-----", State::Suspended),
        ("-wi-d-----", State::Inactive),
        ("-wi-i-----", State::Inactive),
        ("-wi-------", State::Inactive),
        ("-wi-XX--X-", State::Unknown),
        ("-wi-h-----", State::Unknown),
        ("-wi-?-----", State::Unknown),
        ("-wi-a---p-", State::Ok),
        ("-wi-a---X-", State::Unknown),
        ("owi-aos---", State::Ok),
        ("Owi-aos---", State::Merging),
        ("Owi-sos---", State::Suspended),
        ("swi-aos---", State::Ok),
        ("Swi-aos---", State::Merging),
        ("swi-I-s---", State::Invalid),
        ("swi-S-s---", State::Invalid),
        ("swi-m-s---", State::MergeFailed),
        ("swi-M-s---", State::MergeFailed),
        ("Owi-m-s---", State::MergeFailed),
        ("twi-aotz--", State::Ok),
        ("twi-aot---", State::Ok),
        ("twi-aotzF-", State::Failed),
        ("twi-aotzD-", State::OutOfData),
        ("twi-aotzM-", State::ReadOnly),
        ("twi-cotz--", State::NeedsCheck),
        ("twi-Cotz--", State::NeedsCheck),
        // As the device-mapper's word `ro … needs_check` is seen.
        ("twi-cotzM-", State::NeedsCheck),
        ("twi-cotzF-", State::Failed),
        ("Vwi-aotz--", State::Ok),
        ("Vwi-aotzF-", State::Failed),
        ("rwi-aor---", State::Ok),
        ("Rwi-aor---", State::Ok),
        ("rwi-aor-p-", State::Ok),
        ("rwi-aor-r-", State::Degraded),
        ("Rwi-aor-r-", State::Degraded),
        ("rwi-aor-m-", State::MismatchesExist),
        ("rwi-aor-w-", State::Ok),
        ("rwi-aor-s-", State::Ok),
        ("rwi-aor-R-", State::Ok),
        ("mwi-aom---", State::Ok),
        ("Mwi-aom---", State::Ok),
        ("Cwi-aoC---", State::Ok),
        ("Cwi-aoC-E-", State::Failed),
        ("vwi-aov---", State::Ok),
        ("pwi-aom---", State::Ok),
        ("cwi-aom---", State::Ok),
        ("-wi", State::Unknown),
        ("", State::Unknown),
        ("🔔🔔🔔🔔🔔🔔🔔🔔🔔🔔", State::Unknown),
    ] {
        let mut host = Host::new(&["sda"]);
        host.add("it", "", &["sda"], 614_400, "linear ");
        let text = report(&[row("it", attributes)]);
        let interval = Observer::default().observe(&reading(
            0.0,
            with(&host, Part::Lvm, ReadResult::Text(text)),
        ));
        assert_eq!(volume(&interval, "it").1.state, expected, "{attributes}");
    }
}

/// As LVM leaves behind if loading a table fails; its device has a size of 0.
#[test]
fn a_volume_without_a_table_is_as_large_as_lvm_says() {
    for (text, expected) in [
        (report(&[row("it", "-wi-d-----")]), Some(314_572_800)),
        (report(&[]), None),
    ] {
        let mut host = Host::new(&["sda"]);
        host.add("it", "", &["sda"], 0, "linear ");
        let read = with(&host, Part::Lvm, ReadResult::Text(text));
        let interval = Observer::default().observe(&reading(0.0, read));
        assert_eq!(volume(&interval, "it").0.size, expected);
    }
}

#[test]
fn a_vdo_pool_is_never_active_by_its_letters_and_works_all_the_same() {
    let mut host = Host::new(&["sda"]);
    host.add("vpool", "vpool", &["sda"], 614_400, "vdo");
    for (data, expected) in [("60.00", State::Ok), ("", State::Unknown)] {
        let mut pool = row("vpool", "dwi-------");
        pool["data_percent"] = data.into();
        let text = ReadResult::Text(report(&[pool]));
        let interval = Observer::default().observe(&reading(0.0, with(&host, Part::Lvm, text)));
        assert_eq!(volume(&interval, "vpool").1.state, expected, "{data:?}");
    }
}

/// `Cpy%Sync` of `lvs` is what is in step for a mirror or RAID, and something else for others.
#[test]
fn only_mirrors_and_raids_are_in_step() {
    for (attributes, expected) in [
        ("rwi-aor---", Some(40.0)),
        ("Mwi-aom---", Some(40.0)),
        ("Cwi-aoC---", None),
        ("pwi-aom---", None),
    ] {
        let mut host = Host::new(&["sda"]);
        host.add("it", "", &["sda"], 614_400, "linear ");
        let mut it = row("it", attributes);
        it["copy_percent"] = "40.00".into();
        let texts = with(&host, Part::Lvm, ReadResult::Text(report(&[it])));
        let interval = Observer::default().observe(&reading(0.0, texts));
        assert_eq!(
            volume(&interval, "it").1.sync.map(|sync| sync.percent()),
            expected,
            "{attributes}"
        );
    }
}

fn snapshot_host(status: &str) -> Host {
    let mut host = Host::new(&["sda"]);
    let real = host.add_origin("data", &["sda"], 614_400);
    host.add_snapshot("snap", &real, &["sda"], 130_000, status);
    host
}

fn snapshot_report(percent: &str) -> ReadResult {
    let mut snap = row("snap", "swi-a-s---");
    snap["data_percent"] = percent.into();
    snap["origin"] = "data".into();
    ReadResult::Text(report(&[row("data", "owi-a-s---"), snap]))
}

#[test]
fn while_the_device_mapper_is_silent_lvms_word_counts_as_long_as_it_is_new() {
    let host = snapshot_host("snapshot 13000/130000 16");
    let mut observer = Observer::default();
    let mut seen = |seconds: f64, texts: Vec<(Part, ReadResult)>| {
        let interval = observer.observe(&reading(seconds, texts));
        (
            percent(&interval, "snap"),
            volume(&interval, "snap").1.state,
        )
    };
    let dm = || with(&host, Part::Dm, ReadResult::Text(host.device_mapper()));
    let fails = || with(&host, Part::Dm, silent());
    let mut both = dm();
    both.push((Part::Lvm, snapshot_report("9.99")));
    assert_eq!(
        seen(0.0, both),
        (Some(10.0), State::Ok),
        "the kernel knows it better"
    );
    assert_eq!(seen(1.0, dm()), (Some(10.0), State::Ok));
    for second in 2..5 {
        let what = "what LVM said was before what the kernel said";
        assert_eq!(
            seen(f64::from(second), fails()),
            (None, State::Unknown),
            "{what}"
        );
    }
    let mut asked = fails();
    asked.push((Part::Lvm, snapshot_report("33.33")));
    assert_eq!(seen(5.0, asked), (Some(33.33), State::Ok));
    for second in [6.0, 15.0, 29.9] {
        assert_eq!(
            seen(second, fails()),
            (Some(33.33), State::Ok),
            "after {second} s"
        );
    }
    assert_eq!(
        seen(30.1, fails()),
        (None, State::Unknown),
        "it is older than 25 s"
    );
    let mut refused = fails();
    refused.push((
        Part::Lvm,
        ReadResult::Error("`lvm fullreport` failed (exit status: 5): locked".into()),
    ));
    assert_eq!(
        seen(31.0, refused),
        (None, State::Unknown),
        "a refusal makes no report newer"
    );
    let mut invalid = fails();
    let text = match snapshot_report("100.00") {
        ReadResult::Text(text) => text.replace("swi-a-s", "swi-I-s"),
        ReadResult::Error(_) | ReadResult::NotRoot => unreachable!(),
    };
    invalid.push((Part::Lvm, ReadResult::Text(text)));
    assert_eq!(seen(32.0, invalid), (None, State::Invalid));
    assert_eq!(
        seen(33.0, dm()),
        (Some(10.0), State::Ok),
        "the kernel answers again"
    );
}

/// The lines of a device-mapper's answer that are about this layer.
fn lines_of(text: &str, name: &str) -> String {
    let mut lines = text
        .lines()
        .skip_while(|line| line.split('\t').nth(1) != Some(name));
    let own = lines
        .next()
        .into_iter()
        .chain(lines.take_while(|line| line.starts_with('\t')));
    own.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_text_that_tells_again_changes_only_what_it_tells_of() {
    let mut host = snapshot_host("snapshot 13000/130000 16");
    host.add(
        "pool",
        "tpool",
        &["sda"],
        131_072,
        "thin-pool 1 112/1024 162/1024 - rw - -",
    );
    host.layer("pool", "tpool").table = Some("253:1 253:2 128 0 0".into());
    host.add("plain", "", &["sda"], 8_192, "linear ");
    let mut observer = Observer::default();
    let mut take = |seconds: f64, dm: String| {
        let interval = observer.observe(&reading(
            seconds,
            with(&host, Part::Dm, ReadResult::Text(dm)),
        ));
        let used = volume(&interval, "pool")
            .1
            .fill
            .map(|fill| fill.used_bytes());
        let states = ["snap", "data", "plain"].map(|lv| volume(&interval, lv).1.state);
        (
            percent(&interval, "snap"),
            used,
            states,
            complaint(&observer, Part::Dm).map(String::from),
        )
    };
    let all = host.device_mapper();
    let ok = [State::Ok; 3];
    let chunk = 64 * 1024;
    assert_eq!(
        take(0.0, all.clone()),
        (Some(10.0), Some(162 * chunk), ok, None)
    );

    let snap = lines_of(&all, "vg0-snap").replace("13000/", "26000/");
    let pool = lines_of(&all, "vg0-pool-tpool").replace("162/", "200/");
    let pool = pool
        .lines()
        .filter(|line| !line.contains("table"))
        .map(|line| format!("{line}\n"));
    let pool: String = pool.collect();
    let again = format!("again\n{snap}{pool}");
    assert_eq!(
        take(1.0, again),
        (Some(20.0), Some(200 * chunk), ok, None),
        "a chunk is as long as before"
    );

    let asleep = format!("again\n{}{pool}", snap.replace("\tactive", "\tsuspended"));
    let states = [State::Suspended, State::Ok, State::Ok];
    assert_eq!(
        take(2.0, asleep),
        (Some(20.0), Some(200 * chunk), states, None)
    );

    let partial = format!("again\n253:3 could not be read: no memory\n{pool}");
    let (fill, used, states, complaint) = take(3.0, partial);
    assert_eq!(
        (fill, used),
        (None, Some(200 * chunk)),
        "the unreadable one is unknown"
    );
    assert_eq!(
        states,
        [State::Unknown, State::Ok, State::Ok],
        "what does not fill is as it was"
    );
    assert!(complaint.unwrap().contains("could not be read: no memory"));

    assert_eq!(
        take(4.0, format!("again\n{snap}{pool}")),
        (Some(20.0), Some(200 * chunk), ok, None)
    );
    assert_eq!(take(5.0, all), (Some(10.0), Some(162 * chunk), ok, None));
}

/// A write to an origin waits until the old block is in each COW area.
#[test]
fn an_origin_waits_for_the_cow_areas_of_its_snapshots() {
    for (status, suspended, expected) in [
        ("snapshot 13000/130000 16", "snap-cow", State::Suspended),
        ("snapshot Invalid", "snap-cow", State::Ok),
        ("snapshot 13000/130000 16", "snap", State::Ok),
    ] {
        let host = snapshot_host(status);
        let all = host.device_mapper();
        let asleep = lines_of(&all, &format!("vg0-{suspended}"));
        let dm = all.replace(&asleep, &asleep.replace("\tactive", "\tsuspended"));
        let texts = with(&host, Part::Dm, ReadResult::Text(dm));
        let interval = Observer::default().observe(&reading(0.0, texts));
        let found = volume(&interval, "data").1.state;
        assert_eq!(found, expected, "{status}, {suspended} is suspended");
    }
}

/// A killed `lvextend` can leave the device with a pool's name suspended, and the one that works as it was.
#[test]
fn a_pool_is_suspended_if_the_device_of_its_name_is() {
    let mut host = Host::new(&["sda"]);
    let status = "thin-pool 1 112/1024 162/1024 - rw - -";
    let pool = host.add("pool", "tpool", &["sda"], 131_072, status);
    host.layer("pool", "tpool").table = Some("253:1 253:2 128 0 0".into());
    host.add("pool", "pool", &[&pool], 131_072, "linear ");
    let all = host.device_mapper();
    let state = |dm: String| {
        let texts = with(&host, Part::Dm, ReadResult::Text(dm));
        let interval = Observer::default().observe(&reading(0.0, texts));
        volume(&interval, "pool").1.state
    };
    assert_eq!(state(all.clone()), State::Ok);
    for name in ["vg0-pool-pool", "vg0-pool-tpool"] {
        let asleep = lines_of(&all, name);
        let asleep = all.replace(&asleep, &asleep.replace("\tactive", "\tsuspended"));
        assert_eq!(state(asleep), State::Suspended, "{name}");
    }
}

#[test]
fn a_text_that_tells_again_without_a_first_one_makes_nothing_known() {
    let host = snapshot_host("snapshot 13000/130000 16");
    let again = format!("again\n{}", lines_of(&host.device_mapper(), "vg0-snap"));
    let interval = Observer::default().observe(&reading(
        0.0,
        with(&host, Part::Dm, ReadResult::Text(again)),
    ));
    assert_eq!(
        (
            percent(&interval, "snap"),
            volume(&interval, "snap").1.state
        ),
        (None, State::Unknown)
    );
}

#[test]
fn a_silence_between_two_texts_that_tell_again_loses_nothing() {
    let host = snapshot_host("snapshot 13000/130000 16");
    let mut observer = Observer::default();
    let all = host.device_mapper();
    let again = format!(
        "again\n{}",
        lines_of(&all, "vg0-snap").replace("13000/", "26000/")
    );
    let mut fill = |seconds: f64, said: ReadResult| {
        percent(
            &observer.observe(&reading(seconds, with(&host, Part::Dm, said))),
            "snap",
        )
    };
    assert_eq!(fill(0.0, ReadResult::Text(all)), Some(10.0));
    assert_eq!(fill(1.0, silent()), None);
    assert_eq!(fill(2.0, ReadResult::Text(again)), Some(20.0));
}
