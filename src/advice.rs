//! Commands that LVM accepts in the present state of a volume and its group; where there is none, why, and what helps.
//!
//! What LVM refuses, and when, was tried with LVM 2.03.16; `tests/lab/scenarios/advice.sh` repeats that. It stands before
//! `forecast`, which says what an extension brings.

use crate::sample::lvm::Policies;
use crate::sentence;
use crate::sentence::{Sentence, SentencePart, command};
use crate::topology::{
    DeviceKind, Group, LvLayout, OUTSIDE_LVM, PvRoom, Topology, Volume, VolumeKind, extent_of,
};
use crate::units::{Fill, size_text};
use cowbell_touched::curve::{BYTES_OF_AN_EXCEPTION, cow_bytes};

/// LVM's default chunk of a snapshot.
pub const DEFAULT_CHUNK: u64 = 4 * 1024;
/// The most metadata that LVM gives to a thin pool: 15.81 GiB.
const MOST_POOL_METADATA: u64 = 33_161_216 * 512;

/// The size of a COW area that holds every chunk of its origin. Source: dm-snap-persistent.c.
///
/// An origin of 100 MiB with chunks of 4 KiB: 25,600 chunks, 101 with their exceptions, 256 in each, and the header.
pub fn never_overflows(origin_bytes: u64, chunk: Option<u64>) -> u64 {
    let chunk = chunk
        .filter(|chunk| *chunk >= BYTES_OF_AN_EXCEPTION)
        .unwrap_or(DEFAULT_CHUNK);
    cow_bytes(origin_bytes.div_ceil(chunk), chunk)
}

/// How the next snapshot gets a size.
pub struct SizeSetting {
    /// ``Set `lvsize=40M` in mylvmbackup.conf.``
    pub text: Sentence,
    /// Lines for the program's configuration file; `None` if it has none, or is not known.
    pub lines: Option<String>,
}

/// By the program that makes the snapshots of `origin`, or by hand. `free` is that of the group.
///
/// Sources: mylvmbackup.conf and rsnapshot.conf as packaged; holland's provider mysql-lvm, which takes MiB; borgmatic's
/// reference of data sources.
pub fn size_setting(
    tool: Option<&str>,
    bytes: u64,
    origin: &str,
    free: Option<u64>,
) -> SizeSetting {
    let size = lvm_size(bytes);
    let mib = bytes.div_ceil(1 << 20);
    let (file, section, line) = match tool {
        Some(tool) if tool.starts_with("mylvmbackup") => {
            let line = format!("lvsize={}", size.to_uppercase());
            ("mylvmbackup.conf", "[lvm]\n", line)
        }
        Some("rsnapshot") => {
            let line = format!("linux_lvm_snapshotsize\t{}", size.to_uppercase());
            ("rsnapshot.conf", "", line)
        }
        Some("borgmatic") => {
            let line = format!("snapshot_size: {mib}MB");
            ("borgmatic's configuration", "lvm:\n    ", line)
        }
        Some("holland") => {
            let line = format!("snapshot-size = {mib}");
            ("holland's configuration", "[mysql-lvm]\n", line)
        }
        _ => {
            let vg = origin.split_once('/').map_or("", |(vg, _)| vg);
            // LVM gives it a name, and would refuse one that another volume has.
            let create = format!("lvcreate -s -L {size} {origin}");
            let mut text = sentence!["Make the next snapshot with ", command(create), "."];
            if free.is_some_and(|free| free < bytes) {
                let size = size_text(bytes);
                text =
                    sentence!["Make the next snapshot with {size}, once VG {vg} has room for it."];
            }
            return SizeSetting { text, lines: None };
        }
    };
    SizeSetting {
        text: sentence!["Set ", command(&line), " in {file}."],
        lines: Some(format!("{section}{line}")),
    }
}

/// Of a thin pool, what is to be extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolPart {
    Data,
    Metadata,
}

/// The part of a thin pool that is so full that LVM creates no volume in it. Of data, the limit is the threshold of
/// autoextend; of metadata too, and it wants some free in any case.
///
/// Source: `pool_below_threshold` in `lib/metadata/thin_manip.c` of LVM 2.03.
pub struct PoolRefusal {
    pub part: PoolPart,
    pub fill: Fill,
    /// In percent.
    pub limit: f64,
}

impl PoolRefusal {
    /// `threshold` is that of autoextend, in percent.
    pub fn of(metadata: Fill, data: Fill, threshold: u32) -> Option<Self> {
        let threshold = f64::from(threshold);
        let is_above = |fill: Fill| fill.percent() > threshold;
        let least = metadata_limit(metadata);
        let (part, fill, limit) = if is_above(metadata) {
            (PoolPart::Metadata, metadata, threshold)
        } else if metadata.percent() >= least {
            (PoolPart::Metadata, metadata, least)
        } else if is_above(data) {
            (PoolPart::Data, data, threshold)
        } else {
            return None;
        };
        Some(Self { part, fill, limit })
    }

    /// Without a full stop.
    pub fn text(&self, pool: impl Into<Sentence>) -> Sentence {
        let part = match self.part {
            PoolPart::Data => "data",
            PoolPart::Metadata => "metadata",
        };
        let (percent, limit) = (self.fill.percent(), self.limit);
        sentence![
            "The {part} of thin pool ",
            pool,
            " is {percent:.2} % full, and from {limit:.2} % on LVM creates no snapshot in the pool",
        ]
    }
}

/// The fill in percent of a pool's metadata from which LVM creates no thin volume or snapshot in it: it wants a quarter free, or
/// 4 MiB if that is less.
pub fn metadata_limit(metadata: Fill) -> f64 {
    let least_free = 4.0 * 1024.0 * 1024.0 * 100.0 / metadata.total_bytes().max(1) as f64;
    100.0 - least_free.min(25.0)
}

/// What LVM needs to change a group whose metadata it cannot archive before.
const WITHOUT_ARCHIVE: &str = "--autobackup n ";

/// A command that changes a group: `lvremove vg0/snap`
fn change(group: Option<&Group>, program: &str, rest: &str) -> SentencePart {
    let cannot_archive = group.is_some_and(|group| group.archive_fault.is_some());
    let option = if cannot_archive { WITHOUT_ARCHIVE } else { "" };
    command(format!("{program} {option}{rest}"))
}

/// What `lvextend` can do for a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Extensible {
    /// `vg0/mysql_snapshot`
    pub name: String,
    pub vg: String,
    /// `-L`, or `--poolmetadatasize` for a pool's metadata, after other options.
    pub option: String,
    /// It grows by multiples of these bytes: an extent on each of its stripes.
    pub step: u64,
    /// What the group gives for such a step: with copies or parity more than the volume gets.
    pub step_cost: u64,
    /// The bytes that it can get; `None` if unknown.
    pub free: Option<u64>,
    /// Why LVM would refuse now, and what helps. Without a full stop.
    pub refusal: Option<Sentence>,
    /// How the group gets more space. Without a full stop.
    pub more_space: Sentence,
}

/// An extension, in whole extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    pub bytes: u64,
    pub command: String,
}

impl Extensible {
    pub fn new(volume: &Volume, topology: &Topology, part: PoolPart) -> Self {
        let group = topology.group(&volume.vg);
        let option = match part {
            PoolPart::Data => "-L",
            PoolPart::Metadata => "--poolmetadatasize",
        };
        let mut extensible = Self {
            name: volume.full_name(),
            vg: volume.vg.clone(),
            option: option.into(),
            step: extent_of(group),
            step_cost: extent_of(group),
            free: None,
            refusal: None,
            more_space: more_space(&volume.vg, group),
        };
        if let Some(group) = group {
            extensible.refusal = refusal(group, volume, topology, true);
            if group.archive_fault.is_some() {
                extensible.option.insert_str(0, WITHOUT_ARCHIVE);
            }
            extensible.find_room(volume, group, part, topology);
        }
        extensible
    }

    /// By a fifth of its size, where not more is known.
    pub fn by_a_fifth(&self, volume: &Volume) -> Sentence {
        match self.by(volume.size.unwrap_or_default() / 5) {
            Some(extension) => sentence!["run ", command(extension.command)],
            None => self.why_not(),
        }
    }

    /// By at least so many bytes, if there is room; otherwise by all that there is, and `None` if that is less than a step.
    pub fn by(&self, bytes: u64) -> Option<Extension> {
        if self.refusal.is_some() {
            return None;
        }
        let most = self.free.map_or(u64::MAX, |free| free / self.step);
        let steps = bytes.div_ceil(self.step).max(1).min(most);
        let bytes = steps.saturating_mul(self.step);
        let (size, name) = (lvm_size(bytes), &self.name);
        let command = format!("lvextend {} +{size} {name}", self.option);
        (steps > 0).then_some(Extension { bytes, command })
    }

    /// Why there is no extension, and what helps. Without a full stop.
    pub fn why_not(&self) -> Sentence {
        match &self.refusal {
            Some(refusal) => refusal.clone(),
            None => {
                let vg = &self.vg;
                sentence!["VG {vg} has no room for it: ", self.more_space.clone()]
            }
        }
    }

    /// LVM takes extents from PVs that it may allocate from, and one from a different PV for each stripe or leg.
    fn find_room(&mut self, volume: &Volume, group: &Group, part: PoolPart, topology: &Topology) {
        let Some(layout) = extended_part(volume, part) else {
            self.free = group.free;
            return;
        };
        let mut policy = layout.allocation;
        if policy == Some('i') {
            policy = group.allocation;
        }
        // These accept only extents next to its own, or on the same PV.
        if matches!(policy, Some('c' | 'l')) {
            self.option = format!("--alloc normal {}", self.option);
        }
        let extent = self.step;
        let mut rooms: Vec<u64> = group.room.iter().map(|pv| pv.free / extent).collect();
        rooms.sort_unstable_by(|a, b| b.cmp(a));
        let Stripes {
            all,
            of_data,
            are_stripes,
        } = Stripes::of(layout);
        let mut extents = rooms.get(all - 1).copied().unwrap_or_default() * of_data;
        self.step = extent * of_data;
        self.step_cost = extent * all as u64;
        if extents == 0 && are_stripes {
            self.option = format!("-i 1 {}", self.option);
            self.step = extent;
            self.step_cost = extent;
        }
        if self.step == extent && (all == 1 || are_stripes) {
            extents = rooms.iter().sum();
        }
        // LVM also extends the spare volume of a pool's metadata.
        if part == PoolPart::Metadata {
            extents = extents.div_ceil(2);
        }
        let mut free = extents * extent;
        if let Some(most) = most_bytes(volume, part, topology) {
            let size = layout.extents() * extent;
            let left = most
                .div_ceil(extent)
                .saturating_mul(extent)
                .saturating_sub(size);
            if left == 0 && self.refusal.is_none() {
                let size = size_text(size);
                self.refusal = Some(sentence![
                    "it has the largest size that it can have, {size}"
                ]);
            }
            free = free.min(left);
        }
        self.free = group.free.map(|_| free);
    }
}

/// `remove it with …`, after unmounting it; or why LVM would refuse. Without a full stop.
pub fn removal(volume: &Volume, topology: &Topology) -> Sentence {
    if volume.vg == OUTSIDE_LVM {
        let name = shell_word(&volume.lv);
        let remove = command(format!("dmsetup remove {name}"));
        return sentence![unmounting(volume), "remove it with ", remove];
    }
    let group = topology.group(&volume.vg);
    if let Some(refusal) = group.and_then(|group| refusal(group, volume, topology, false)) {
        return sentence!["LVM cannot remove it now: ", refusal];
    }
    let name = volume.full_name();
    let remove = change(group, "lvremove", &name);
    sentence![
        unmounting(volume),
        closing(volume, topology),
        "remove it with ",
        remove
    ]
}

/// Has LVM's daemon watch the volume, and extend it. Without a full stop.
pub fn monitoring(volume: &Volume, policies: Policies) -> Sentence {
    let switch = command(format!("lvchange --monitor y {}", volume.full_name()));
    let setting = "set activation/monitoring=1 in lvm.conf, then ";
    let first = (!policies.monitoring).then_some(setting);
    sentence![first, "switch that on with ", switch]
}

/// Ends the wait of a device of this kernel's name. Without a full stop.
pub fn resumption(device: &str) -> Sentence {
    let resume = command(format!("dmsetup resume /dev/{device}"));
    sentence![
        "if no LVM command is at work, as after one that was killed, run ",
        resume
    ]
}

/// For a volume with a part on a PV that is missing or gives errors. Without a full stop.
pub fn reattachment(volume: &Volume, topology: &Topology) -> Sentence {
    let vg = &volume.vg;
    let restore = "; if it is lost, restore the volume from a backup";
    let group = topology.group(vg);
    let refresh = command(format!("vgchange --refresh {vg}"));
    // LVM refuses to refresh what is partial.
    if group.is_none_or(|group| group.missing_pvs > 0 || group_refusal(group).is_some()) {
        return match group {
            Some(group) if can_restore(group) => {
                let are_all = group.returned_pvs.len() == group.missing_pvs as usize;
                let then = are_all.then(|| sentence![", then run ", refresh]);
                sentence![return_of_pvs(group), then]
            }
            Some(group) => sentence![return_of_pvs(group), restore],
            None => sentence!["attach the disk again{restore}"],
        };
    }
    sentence!["once the PV works again, run ", refresh, restore]
}

/// For a RAID or mirror that has lost a leg: `part` is the volume, or a hidden one below it. Without a full stop.
pub fn raid_repair(volume: &Volume, part: &str, topology: &Topology) -> Sentence {
    let vg = &volume.vg;
    let group = topology.group(vg);
    if let Some(refusal) = group.and_then(|group| refusal(group, volume, topology, false)) {
        return sentence!["LVM cannot repair it now: ", refusal];
    }
    let back = match group {
        Some(group) if can_restore(group) => return return_of_pvs(group),
        // LVM refuses to refresh what is partial.
        Some(group) if group.missing_pvs > 0 => return_of_pvs(group),
        _ => {
            let refresh = raid_change(volume, part, topology, "lvchange --refresh");
            sentence!["if its disk is back, ", refresh]
        }
    };
    let repair = sentence![
        "run ",
        change(group, "lvconvert", &format!("--repair {vg}/{part}"))
    ];
    let other = match group {
        Some(group) if apart(volume, group, leg_bytes(volume, part, group)).is_none() => {
            let more = more_space(vg, Some(group));
            let then = group.can_grow().then(|| sentence![", and ", repair]);
            sentence![more, then]
        }
        _ => repair,
    };
    sentence![back, "; otherwise ", other]
}

/// A command, such as `lvchange --refresh`, that changes a RAID or a part of it. Without a full stop.
pub fn raid_change(volume: &Volume, part: &str, topology: &Topology, change: &str) -> Sentence {
    let group = topology.group(&volume.vg);
    match group.and_then(|group| refusal(group, volume, topology, false)) {
        Some(refusal) => sentence!["LVM cannot repair it now: ", refusal],
        None => sentence!["run ", command(format!("{change} {}/{part}", volume.vg))],
    }
}

/// The size of each of its legs.
fn leg_bytes(volume: &Volume, part: &str, group: &Group) -> u64 {
    let start = format!("{part}_rimage_");
    let legs = volume
        .layout
        .iter()
        .filter(|part| part.lv.starts_with(&start));
    let extents = legs.map(LvLayout::extents);
    extents.max().unwrap_or(1).max(1) * group.extent_bytes()
}

/// A PV with room that has no part of the volume.
fn apart<'a>(volume: &Volume, group: &'a Group, bytes: u64) -> Option<&'a str> {
    let carries = |pv: &&PvRoom| {
        pv.device
            .as_ref()
            .is_some_and(|name| volume.pvs.contains(name))
    };
    let mut rooms = group.room.iter().filter(|pv| pv.free >= bytes);
    let found = rooms.find(|pv| !carries(pv))?;
    Some(&found.path)
}

/// Where the COW area of a snapshot has room apart from its origin: the PV, and how `lvcreate` gets it.
pub fn other_pv(origin: &Volume, topology: &Topology) -> (Option<String>, Sentence) {
    let (vg, group) = (&origin.vg, topology.group(&origin.vg));
    let last = "last in the `lvcreate` command";
    if let Some(pv) = group.and_then(|group| apart(origin, group, group.extent_bytes())) {
        return (Some(pv.into()), sentence!["name {pv} {last}"]);
    }
    let pv = group.filter(|group| group.can_grow()).and_then(|group| {
        let pv = group.not_allocatable.as_ref();
        pv.or(group.free_pv.as_ref())
    });
    let name = pv.map(|pv| format!(", and name {pv} {last}"));
    let no = "VG {vg} has no other PV with room: ".replace("{vg}", vg);
    (pv.cloned(), sentence![no, more_space(vg, group), name])
}

/// For a thin pool or cache whose metadata is damaged. Without a full stop.
pub fn pool_repair(pool: &Volume, topology: &Topology) -> Sentence {
    let name = pool.full_name();
    let group = topology.group(&pool.vg);
    if let Some(refusal) = group.and_then(|group| refusal(group, pool, topology, false)) {
        return sentence!["LVM cannot repair it now: ", refusal];
    }
    // LVM would not activate it again.
    if pool.is_partial() {
        return reattachment(pool, topology);
    }
    let is_in_it = |volume: &&Volume| {
        volume.vg == pool.vg && volume.pool.as_ref() == Some(&pool.lv) && volume.device.is_some()
    };
    let mut sentence = Sentence::default();
    if let Some(group) = group
        && let Some(bytes) = repaired_metadata(pool, group)
    {
        let (vg, size) = (&pool.vg, size_text(bytes));
        sentence.push(sentence![
            "make room in VG {vg} for {size} of repaired metadata: ",
            more_space(vg, Some(group)),
            ", then "
        ]);
    }
    let mut names = String::new();
    for volume in topology.volumes.iter().filter(is_in_it) {
        sentence.push(unmounting(volume));
        names += &format!("{} ", volume.full_name());
    }
    sentence.push(unmounting(pool));
    // LVM repairs no writecache, whose count of errors ends with its device.
    let repair = sentence![
        ", then run ",
        change(group, "lvconvert", &format!("--repair {name}"))
    ];
    sentence.push(sentence![
        "deactivate it with ",
        command(format!("lvchange -an {names}{name}")),
        (pool.kind != VolumeKind::Writecache).then_some(repair),
        " and activate it with ",
        command(format!("lvchange -ay {}{names}{name}", checking(pool.kind)))
    ]);
    sentence
}

/// The option of `lvchange` by which a repaired thin pool is writable again: the repair leaves its flag `needs_check`, which
/// LVM's check clears at activation, but not with the settings of every LVM.
fn checking(kind: VolumeKind) -> &'static str {
    if kind.is_thin_pool() {
        "--config 'global/thin_check_options=[\"-q\",\"--clear-needs-check-flag\"]' "
    } else {
        ""
    }
}

/// The size of the metadata that a repair writes anew, if neither the spare volume nor the group has room for it.
fn repaired_metadata(pool: &Volume, group: &Group) -> Option<u64> {
    if pool.kind == VolumeKind::Writecache {
        return None;
    }
    let is_metadata = |part: &&LvLayout| part.lv.ends_with("_tmeta") || part.lv.ends_with("_cmeta");
    let metadata = pool.layout.iter().find(is_metadata)?;
    let bytes = metadata.extents() * group.extent_bytes();
    let free: u64 = group.room.iter().map(|pv| pv.free).sum();
    (group.spare.unwrap_or_default() + free < bytes).then_some(bytes)
}

/// Starts a merge that waits or has stopped. Without a full stop.
pub fn reactivation(origin: &Volume) -> Sentence {
    let name = origin.full_name();
    sentence![
        unmounting(origin),
        "run ",
        command(format!("lvchange -an {name}")),
        " and ",
        command(format!("lvchange -ay {name}")),
    ]
}

/// For a group with missing PVs. Without a full stop.
pub fn missing_pvs(group: &Group) -> Sentence {
    let back = return_of_pvs(group);
    if group.misses_data || can_restore(group) || group_refusal(group).is_some() {
        return back;
    }
    let rest = format!("--removemissing {}", group.name);
    let reduce = change(Some(group), "vgreduce", &rest);
    sentence![back, "; it is empty, so if it is lost, run ", reduce]
}

/// Whether PVs are there again that LVM still takes for missing, and it would use them.
fn can_restore(group: &Group) -> bool {
    !group.returned_pvs.is_empty() && group_refusal(group).is_none()
}

/// How the missing PVs of a group come back. Without a full stop.
fn return_of_pvs(group: &Group) -> Sentence {
    if can_restore(group) {
        let pvs = group.returned_pvs.join(" ");
        let restore = format!("--restoremissing {} {pvs}", group.name);
        return sentence![
            "since the disk is there again, run ",
            change(Some(group), "vgextend", &restore)
        ];
    }
    match &group.hidden_pv {
        Some(device) => sentence![
            "if /dev/{device} works, allow it in LVM's devices file or filter, and if not, attach it again"
        ],
        None => "attach the disk again".into(),
    }
}

/// `unmount it with …, and `; empty if it is not mounted.
fn unmounting(volume: &Volume) -> Sentence {
    let mut sentence = Sentence::default();
    for point in &volume.mounts_inside {
        let unmount = command(format!("umount {}", shell_word(point)));
        sentence.push(sentence![
            "unmount what is mounted in it with ",
            unmount,
            ", and "
        ]);
    }
    for point in volume.mounted_on.iter().flatten() {
        let point = shell_word(point);
        sentence.push(sentence![
            "unmount it with ",
            command(format!("umount {point}")),
            " (",
            command(format!("fuser -vm {point}")),
            " lists what uses it), and "
        ]);
    }
    sentence
}

/// In quotes, if a shell would split or change it.
fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/_.-+:@%".contains(letter);
    if word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// `close NAME with …, and `, of each device on top of the volume, the uppermost first. If there is none, and it is not mounted
/// here but was open at LVM's last report, how to find what may have it open.
fn closing(volume: &Volume, topology: &Topology) -> Sentence {
    let path = format!("/dev/{}", volume.full_name());
    let mut steps: Vec<Sentence> = Vec::new();
    for holder in volume.on_top.iter().rev() {
        let step = closing_one(*holder, volume, &path, topology);
        // The partitions of a device have one command.
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    let is_mounted = volume.mounted_on.iter().flatten().next().is_some();
    if steps.is_empty() && volume.is_open && !is_mounted {
        steps.push(sentence![
            "if a process or container still has it open (",
            command(format!("fuser -v {path}")),
            " lists processes), end that, and "
        ]);
    }
    let mut sentence = Sentence::default();
    for step in steps {
        sentence.push(step);
    }
    sentence
}

/// `path` is the volume's.
fn closing_one(holder: usize, volume: &Volume, path: &str, topology: &Topology) -> Sentence {
    let holder = &topology.devices[holder];
    let name = shell_word(&holder.label);
    if holder.identity.starts_with("part") {
        let own = volume.device.map(|index| &topology.devices[index]);
        let below = holder.slaves.first();
        let close = match below.filter(|below| own.is_none_or(|own| **below != *own.name)) {
            Some(below) => command(format!("kpartx -d /dev/{below}")),
            None => command(format!("kpartx -d {path}")),
        };
        return sentence!["close its partitions with ", close, ", and "];
    }
    let device = &holder.name;
    let close = match holder.kind {
        DeviceKind::Loop => format!("losetup -d /dev/{device}"),
        DeviceKind::Md => format!("mdadm --stop /dev/{device}"),
        DeviceKind::Dm if holder.identity.starts_with("CRYPT-") => {
            format!("cryptsetup close {name}")
        }
        // LVM could take a volume of a guest for that of the same name on the origin.
        DeviceKind::Dm => format!("dmsetup remove /dev/{device}"),
        _ => return sentence!["close {name}, which uses it, and "],
    };
    sentence!["close {name} with ", command(close), ", and "]
}

/// Why LVM would refuse a change of this volume, and what helps. It removes volumes though PVs are missing.
fn refusal(
    group: &Group,
    volume: &Volume,
    topology: &Topology,
    is_extension: bool,
) -> Option<Sentence> {
    let vg = &group.name;
    if let Some(refusal) = group_refusal(group) {
        return Some(refusal);
    }
    if volume.is_merging {
        let origin = topology.origin_of(volume)?;
        let name = origin.full_name();
        return Some(sentence![
            "it waits to be merged into {name}, and LVM refuses to change it until then; to merge it now, ",
            reactivation(origin),
        ]);
    }
    if volume.is_locked {
        return Some(sentence![
            "a pvmove moves it, and LVM refuses to change it until that has ended; ",
            pvmove_abort(Some(group))
        ]);
    }
    if group.missing_pvs == 0 || !is_extension {
        return None;
    }
    let why = "a PV of VG {vg} is missing, and until it is back LVM refuses to extend volumes: ";
    Some(sentence![why.replace("{vg}", vg), missing_pvs(group)])
}

/// Why `lvcreate` would refuse a snapshot in the group, and what helps. Without a full stop.
pub fn snapshot_refusal(group: &Group) -> Option<Sentence> {
    let vg = &group.name;
    if let Some(refusal) = group_refusal(group) {
        return Some(refusal);
    }
    if group.missing_pvs > 0 {
        return Some(sentence![
            "a PV of VG {vg} is missing: ",
            missing_pvs(group)
        ]);
    }
    if let Some(fault) = &group.archive_fault {
        return Some(sentence![
            "LVM cannot archive the metadata of VG {vg}, which it does before each change: {fault}"
        ]);
    }
    let most = group.max_volumes?;
    let allow = change(Some(group), "vgchange", &format!("-l 0 {vg}"));
    Some(sentence![
        "VG {vg} has as many volumes as it may have, {most}: allow more with ",
        allow
    ])
}

/// Why `lvcreate` would refuse a snapshot of this volume, and what helps. Without a full stop.
pub fn origin_refusal(origin: &Volume, topology: &Topology) -> Option<Sentence> {
    let name = origin.full_name();
    if origin.is_merged_into {
        return Some(sentence![
            "a snapshot waits to be merged into {name}, and LVM makes no other one until then; to merge it now, ",
            reactivation(origin)
        ]);
    }
    if origin.is_locked {
        let group = topology.group(&origin.vg);
        return Some(sentence![
            "a pvmove moves {name}, and LVM makes no snapshot of it until that has ended; ",
            pvmove_abort(group)
        ]);
    }
    let mut segments = origin.layout.iter().flat_map(|part| &part.segments);
    let why = match origin.kind {
        kind if kind.is_thick_snapshot() => "a snapshot itself",
        VolumeKind::ThinPool => "a thin pool",
        _ if segments.any(|segment| segment.kind == "integrity") => "a RAID with integrity",
        _ => return None,
    };
    Some(sentence!["{name} is {why}, of which LVM makes no snapshot"])
}

fn pvmove_abort(group: Option<&Group>) -> Sentence {
    sentence![change(group, "pvmove", "--abort"), " stops it"]
}

/// Whether no snapshot can be made in a group of this host, for however long it stays as it is.
pub fn blocks_snapshots(group: &Group) -> bool {
    let cannot_archive = group.archive_fault.is_some() && group_refusal(group).is_none();
    group.missing_pvs > 0 || group.twin.is_some() || cannot_archive
}

/// Why LVM would refuse any change in the group, and what helps.
fn group_refusal(group: &Group) -> Option<Sentence> {
    let vg = &group.name;
    if vg == OUTSIDE_LVM {
        return Some(sentence![
            "it is outside LVM, which cannot change it: use the program that created it"
        ]);
    }
    // The name without what tells it from others of this name.
    let vg = vg.split('@').next().unwrap_or(vg);
    if group.namesake_is_in_guest {
        return Some(sentence![
            "a guest's disk has a group of the name {vg} too, so LVM refuses it: hide that disk from LVM with \
             devices/scan_lvs=0 in lvm.conf"
        ]);
    }
    if let Some(uuid) = &group.namesake {
        let rename = change(Some(group), "vgrename", &format!("{uuid} {vg}_other"));
        let why = "two volume groups have the name {vg}, so LVM refuses it";
        return Some(sentence![
            why.replace("{vg}", vg),
            ": rename the other one with ",
            rename
        ]);
    }
    if let Some([pv, other]) = &group.twin {
        return Some(sentence![
            "LVM finds the PV {pv} on {other} too, and changes nothing in VG {vg} until {other} is hidden from it: take it out \
             of LVM's devices file, or set devices/global_filter in lvm.conf"
        ]);
    }
    if group.is_exported {
        let import = change(Some(group), "vgimport", vg);
        return Some(sentence!["VG {vg} is exported: import it with ", import]);
    }
    if group.is_unreported {
        return Some(sentence![
            "LVM does not show VG {vg} on this host: change it on the host that it belongs to, or allow its disks in LVM's \
             devices file or filter"
        ]);
    }
    if let Some(id) = &group.foreign {
        return Some(sentence![
            "VG {vg} has the system ID of another host, {id}: change it on that host"
        ]);
    }
    if group.is_read_only {
        return Some(sentence![
            "LVM may not write the metadata of VG {vg}: first make it writable"
        ]);
    }
    if group.is_shared {
        return Some(sentence![
            "VG {vg} is shared: change it on the host that holds its lock"
        ]);
    }
    None
}

/// Without a full stop.
fn more_space(vg: &str, group: Option<&Group>) -> Sentence {
    let Some(group) = group else {
        return sentence!["add a PV to VG {vg}"];
    };
    if let Some(pv) = &group.not_allocatable {
        let allow = change(Some(group), "pvchange", &format!("-x y {pv}"));
        return sentence!["let LVM use the free space of {pv} with ", allow];
    }
    let Some(pv) = &group.free_pv else {
        return sentence!["add a PV to VG {vg}, since none that fits is free"];
    };
    let mut commands = Sentence::default();
    for (is_needed, option) in [(group.is_fixed, "-x y"), (group.is_at_max_pvs, "-p 0")] {
        if is_needed {
            let allow = change(Some(group), "vgchange", &format!("{option} {vg}"));
            commands.push(sentence![allow, " and "]);
        }
    }
    let add = change(Some(group), "vgextend", &format!("{vg} {pv}"));
    sentence!["add the free PV with ", commands, add]
}

/// The LV whose segments `lvextend` adds to.
fn extended_part(volume: &Volume, part: PoolPart) -> Option<&LvLayout> {
    let mut name = volume.lv.clone();
    match (volume.kind, part) {
        (_, PoolPart::Metadata) => name += "_tmeta",
        (VolumeKind::ThinPool, PoolPart::Data) => name += "_tdata",
        _ => {}
    }
    let of = |lv: &str| {
        let mut layouts = volume.layout.iter();
        layouts.find(|layout| layout.lv == lv && !layout.segments.is_empty())
    };
    // Of data with a cache, it adds to what is cached.
    of(&format!("{name}_corig")).or_else(|| of(&name))
}

/// On how many PVs at once it allocates.
struct Stripes {
    all: usize,
    /// The others have copies or parity.
    of_data: u64,
    are_stripes: bool,
}

impl Stripes {
    fn of(layout: &LvLayout) -> Self {
        let last = layout.segments.last();
        let kind = last.map_or("", |segment| segment.kind.as_str());
        let all = last.and_then(|segment| segment.stripes).unwrap_or(1).max(1);
        let of_data = match kind {
            "mirror" | "raid1" => 1,
            "raid10" => all / 2,
            _ if kind.starts_with("raid6") => all.saturating_sub(2),
            _ if kind.starts_with("raid4") || kind.starts_with("raid5") => all - 1,
            _ => all,
        };
        Self {
            all: all as usize,
            of_data: u64::from(of_data.max(1)),
            are_stripes: kind == "striped" && all > 1,
        }
    }
}

/// The largest useful size.
pub fn most_bytes(volume: &Volume, part: PoolPart, topology: &Topology) -> Option<u64> {
    if part == PoolPart::Metadata {
        return Some(MOST_POOL_METADATA);
    }
    let origin = topology
        .origin_of(volume)
        .filter(|_| volume.kind.is_thick_snapshot())?;
    let chunk = volume.layout.first()?.segments.first()?.chunk_size;
    Some(never_overflows(origin.size?, chunk))
}

/// A size as LVM's commands take it, a whole number: `40m`
pub fn lvm_size(bytes: u64) -> String {
    let units = [(30, "g"), (20, "m"), (10, "k")];
    let (shift, unit) = units
        .into_iter()
        .find(|(shift, _)| bytes.is_multiple_of(1 << shift))
        .unwrap_or((0, "b"));
    format!("{}{unit}", bytes >> shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::diskstats::Number;
    use crate::topology::{Device, DeviceKind};

    const MIB: u64 = 1 << 20;

    #[test]
    fn each_program_has_its_own_setting() {
        for (tool, free_mib, text, lines) in [
            (
                Some("mylvmbackup"),
                1024,
                "Set `lvsize=40M` in mylvmbackup.conf.",
                Some("[lvm]\nlvsize=40M"),
            ),
            (
                Some("rsnapshot"),
                1024,
                "Set `linux_lvm_snapshotsize\t40M` in rsnapshot.conf.",
                Some("linux_lvm_snapshotsize\t40M"),
            ),
            (
                Some("borgmatic"),
                1024,
                "Set `snapshot_size: 40MB` in borgmatic's configuration.",
                Some("lvm:\n    snapshot_size: 40MB"),
            ),
            (
                Some("holland"),
                1024,
                "Set `snapshot-size = 40` in holland's configuration.",
                Some("[mysql-lvm]\nsnapshot-size = 40"),
            ),
            (
                Some("nightly.sh"),
                1024,
                "Make the next snapshot with `lvcreate -s -L 40m vg0/mysql`.",
                None,
            ),
            (
                None,
                30,
                "Make the next snapshot with 40.0 MiB, once VG vg0 has room for it.",
                None,
            ),
        ] {
            let found = size_setting(tool, 40 * MIB, "vg0/mysql", Some(free_mib * MIB));
            assert_eq!(
                (&*found.text.to_string(), found.lines.as_deref()),
                (text, lines),
                "{tool:?}"
            );
        }
    }

    fn volume(lv: &str, kind: VolumeKind) -> Volume {
        Volume {
            vg: "vg0".into(),
            lv: lv.into(),
            kind,
            size: Some(40 * MIB),
            device: Some(0),
            pvs: vec!["sda".into(), "sdb".into()],
            ..Volume::default()
        }
    }

    fn pv(name: &str, free_mib: u64) -> PvRoom {
        PvRoom {
            path: format!("/dev/{name}"),
            device: Some(name.into()),
            free: free_mib * MIB,
        }
    }

    fn group() -> Group {
        Group {
            name: "vg0".into(),
            free: Some(100 * MIB),
            extent: Some(4 * MIB),
            room: vec![pv("sda", 100)],
            ..Group::default()
        }
    }

    fn topology(group: Group, volumes: Vec<Volume>) -> Topology {
        Topology::new(Vec::new(), vec![group], volumes)
    }

    /// A device-mapper device, below which are others.
    fn device(name: &str, identity: &str, label: &str, slaves: &[&str]) -> Device {
        Device {
            number: Number {
                major: 253,
                minor: 0,
            },
            name: name.into(),
            identity: identity.into(),
            generation: None,
            label: label.into(),
            kind: DeviceKind::Dm,
            vg: None,
            lv: None,
            is_pv: false,
            slaves: slaves.iter().map(|name| (*name).into()).collect(),
            paths: Vec::new(),
            size: None,
            model: None,
            rotational: None,
            scheduler: None,
            read_ahead_kib: None,
            block_size: None,
            counts: false,
        }
    }

    /// What is to be done before `lvremove`, with devices of these identities on top, each on the one before or on the snapshot.
    fn before_removal(snapshot: &Volume, on_top: &[(&str, &str, &str)]) -> String {
        let mut devices = vec![device("dm-3", "LVM-abc", "vg0/snap", &["dm-1"])];
        for (place, (identity, label, below)) in on_top.iter().enumerate() {
            devices.push(device(
                &format!("dm-{}", place + 4),
                identity,
                label,
                &[below],
            ));
        }
        let snapshot = Volume {
            on_top: (1..devices.len()).collect(),
            ..snapshot.clone()
        };
        let topology = Topology::new(devices, vec![group()], vec![snapshot.clone()]);
        let found = removal(&snapshot, &topology).to_string();
        let before = found.strip_suffix("remove it with `lvremove vg0/snap`");
        before.expect("the removal at the end").into()
    }

    #[test]
    fn what_lies_on_a_snapshot_is_closed_before_it_is_removed() {
        let mut snapshot = volume("snap", VolumeKind::Snapshot);
        snapshot.is_open = true;
        let partition = |label| ("part1-LVM-abc", label, "dm-3");
        let close_partitions = "close its partitions with `kpartx -d /dev/vg0/snap`, and ";
        for (on_top, expected) in [
            (vec![partition("vg0-snap1")], close_partitions),
            (
                vec![partition("vg0-snap1"), partition("vg0-snap2")],
                close_partitions,
            ),
            (
                vec![("CRYPT-LUKS2-abc-the box", "the box", "dm-3")],
                "close 'the box' with `cryptsetup close 'the box'`, and ",
            ),
            (
                vec![
                    partition("vg0-snap1"),
                    ("CRYPT-LUKS2-abc-box", "box", "dm-4"),
                ],
                "close box with `cryptsetup close box`, and close its partitions with `kpartx -d /dev/vg0/snap`, and ",
            ),
            (
                vec![
                    ("CRYPT-LUKS2-abc-box", "box", "dm-3"),
                    ("part1-CRYPT-LUKS2-abc-box", "box1", "dm-4"),
                ],
                "close its partitions with `kpartx -d /dev/dm-4`, and close box with `cryptsetup close box`, and ",
            ),
            (
                vec![("LVM-guest-root", "guest/root", "dm-3")],
                "close guest/root with `dmsetup remove /dev/dm-4`, and ",
            ),
        ] {
            assert_eq!(before_removal(&snapshot, &on_top), expected);
        }
    }

    #[test]
    fn what_may_have_a_snapshot_open_is_said_only_of_one_that_nothing_shown_has_open() {
        let mut snapshot = volume("snap", VolumeKind::Snapshot);
        assert_eq!(before_removal(&snapshot, &[]), "");
        snapshot.is_open = true;
        assert_eq!(
            before_removal(&snapshot, &[]),
            "if a process or container still has it open (`fuser -v /dev/vg0/snap` lists processes), end that, and "
        );
        snapshot.mounted_on = Some(vec!["/mnt/snap".into()]);
        assert_eq!(
            before_removal(&snapshot, &[]),
            "unmount it with `umount /mnt/snap` (`fuser -vm /mnt/snap` lists what uses it), and "
        );
        snapshot.mounts_inside = vec!["/mnt/snap/boot".into()];
        assert!(before_removal(&snapshot, &[]).starts_with(
            "unmount what is mounted in it with `umount /mnt/snap/boot`, and unmount it with `umount /mnt/snap`"
        ));
    }

    #[test]
    fn a_raid_is_repaired_where_there_is_room_for_another_leg() {
        let back = "if its disk is back, run `lvchange --refresh vg0/raid`; otherwise ";
        let repair = "run `lvconvert --repair vg0/raid`";
        for (room, free_pv, expected) in [
            (vec![pv("sda", 100), pv("sdc", 100)], None, repair.into()),
            (
                vec![pv("sda", 100)],
                Some("/dev/sdd"),
                format!("add the free PV with `vgextend vg0 /dev/sdd`, and {repair}"),
            ),
            (
                vec![pv("sda", 100)],
                None,
                "add a PV to VG vg0, since none that fits is free".into(),
            ),
        ] {
            let group = Group {
                room,
                free_pv: free_pv.map(String::from),
                ..group()
            };
            let raid = volume("raid", VolumeKind::Raid);
            let found = raid_repair(&raid, "raid", &topology(group.clone(), vec![raid.clone()]));
            assert_eq!(found.to_string(), format!("{back}{expected}"));
            let missing = Group {
                missing_pvs: 1,
                ..group
            };
            let found = raid_repair(&raid, "raid", &topology(missing, vec![raid.clone()]));
            let attach = "attach the disk again; otherwise ";
            assert_eq!(found.to_string(), format!("{attach}{expected}"));
        }
    }

    #[test]
    fn a_cow_area_gets_a_pv_that_its_origin_has_not() {
        for (room, free_pv, expected) in [
            (
                vec![pv("sda", 100), pv("sdc", 100)],
                None,
                "name /dev/sdc last in the `lvcreate` command",
            ),
            (
                vec![pv("sdc", 1)],
                Some("/dev/sdd"),
                "VG vg0 has no other PV with room: add the free PV with `vgextend vg0 /dev/sdd`, and name /dev/sdd last in the \
                 `lvcreate` command",
            ),
            (
                vec![],
                None,
                "VG vg0 has no other PV with room: add a PV to VG vg0, since none that fits is free",
            ),
        ] {
            let group = Group {
                room,
                free_pv: free_pv.map(String::from),
                ..group()
            };
            let origin = volume("data", VolumeKind::Linear);
            let (_, found) = other_pv(&origin, &topology(group, Vec::new()));
            assert_eq!(found.to_string(), expected);
        }
    }

    #[test]
    fn a_pool_is_repaired_when_nothing_uses_it() {
        let pool = volume("pool", VolumeKind::ThinPool);
        let mut thin = volume("thin", VolumeKind::Thin);
        (thin.pool, thin.mounted_on) = (Some("pool".into()), Some(vec!["/srv/a b".into()]));
        let found = pool_repair(&pool, &topology(group(), vec![pool.clone(), thin]));
        assert_eq!(
            found.to_string(),
            "unmount it with `umount '/srv/a b'` (`fuser -vm '/srv/a b'` lists what uses it), and deactivate it with `lvchange -an \
             vg0/thin vg0/pool`, then run `lvconvert --repair vg0/pool` and activate it with `lvchange -ay --config \
             'global/thin_check_options=[\"-q\",\"--clear-needs-check-flag\"]' vg0/thin vg0/pool`"
        );
    }

    #[test]
    fn a_pool_without_room_for_repaired_metadata_gets_it_first() {
        let repaired = "deactivate it with `lvchange -an vg0/pool`, then run `lvconvert --repair vg0/pool` and activate it with \
             `lvchange -ay --config 'global/thin_check_options=[\"-q\",\"--clear-needs-check-flag\"]' vg0/pool`";
        let mut pool = volume("pool", VolumeKind::ThinPool);
        let segment = crate::sample::lvm::Segment {
            extents: 2,
            ..Default::default()
        };
        pool.layout.push(LvLayout {
            lv: "pool_tmeta".into(),
            allocation: None,
            segments: vec![segment],
        });
        for (free_mib, spare_mib, before) in [
            (100, 0, ""),
            (0, 8, ""),
            (4, 4, ""),
            (
                4,
                0,
                "make room in VG vg0 for 8.00 MiB of repaired metadata: add the free PV with `vgextend vg0 /dev/sdd`, then ",
            ),
        ] {
            let group = Group {
                room: vec![pv("sda", free_mib)],
                spare: Some(spare_mib * MIB).filter(|spare| *spare > 0),
                free_pv: Some("/dev/sdd".into()),
                ..group()
            };
            let found = pool_repair(&pool, &topology(group, vec![pool.clone()]));
            assert_eq!(found.to_string(), format!("{before}{repaired}"));
        }
    }

    #[test]
    fn a_writecache_is_activated_again_and_what_misses_a_pv_waits_for_it() {
        let mut pool = volume("data", VolumeKind::Writecache);
        let found = pool_repair(&pool, &topology(group(), vec![pool.clone()]));
        assert_eq!(
            found.to_string(),
            "deactivate it with `lvchange -an vg0/data` and activate it with `lvchange -ay vg0/data`"
        );
        pool.health = Some("partial".into());
        let group = Group {
            missing_pvs: 1,
            ..group()
        };
        let found = pool_repair(&pool, &topology(group, vec![pool.clone()]));
        let attach = "attach the disk again; if it is lost, restore the volume from a backup";
        assert_eq!(found.to_string(), attach);
    }

    /// What LVM refuses in each state of the group, and what helps then.
    #[test]
    fn no_command_is_shown_that_lvm_refuses() {
        type Change = fn(&mut Group);
        let cases: [(Change, &str); 14] = [
            (|_| {}, "run `lvextend -L +8m vg0/snap`"),
            (
                |group| group.is_exported = true,
                "VG vg0 is exported: import it with `vgimport vg0`",
            ),
            (
                |group| group.is_read_only = true,
                "LVM may not write the metadata of VG vg0: first make it writable",
            ),
            (
                |group| group.is_shared = true,
                "VG vg0 is shared: change it on the host that holds its lock",
            ),
            (
                |group| group.namesake = Some("u-u-i-d".into()),
                "two volume groups have the name vg0, so LVM refuses it: rename the other one with `vgrename u-u-i-d vg0_other`",
            ),
            (
                |group| group.missing_pvs = 1,
                "a PV of VG vg0 is missing, and until it is back LVM refuses to extend volumes: attach the disk again; it is empty, \
                 so if it is lost, run `vgreduce --removemissing vg0`",
            ),
            (
                |group| (group.missing_pvs, group.misses_data) = (1, true),
                "a PV of VG vg0 is missing, and until it is back LVM refuses to extend volumes: attach the disk again",
            ),
            (
                |group| {
                    (group.missing_pvs, group.misses_data) = (1, true);
                    group.returned_pvs = vec!["/dev/sdc".into()];
                },
                "a PV of VG vg0 is missing, and until it is back LVM refuses to extend volumes: since the disk is there again, run \
                 `vgextend --restoremissing vg0 /dev/sdc`",
            ),
            (
                |group| {
                    (group.missing_pvs, group.misses_data) = (1, true);
                    group.hidden_pv = Some("sdc".into());
                },
                "a PV of VG vg0 is missing, and until it is back LVM refuses to extend volumes: if /dev/sdc works, allow it in \
                 LVM's devices file or filter, and if not, attach it again",
            ),
            (
                |group| (group.free, group.room) = (Some(0), Vec::new()),
                "VG vg0 has no room for it: add a PV to VG vg0, since none that fits is free",
            ),
            (
                |group| {
                    (group.free, group.room, group.is_fixed) = (Some(0), Vec::new(), true);
                    group.free_pv = Some("/dev/sdd".into());
                },
                "VG vg0 has no room for it: add the free PV with `vgchange -x y vg0` and `vgextend vg0 /dev/sdd`",
            ),
            (
                |group| group.archive_fault = Some("free space".into()),
                "run `lvextend --autobackup n -L +8m vg0/snap`",
            ),
            (
                |group| {
                    (group.free, group.room) = (Some(0), Vec::new());
                    group.archive_fault = Some("free space".into());
                    group.free_pv = Some("/dev/sdd".into());
                },
                "VG vg0 has no room for it: add the free PV with `vgextend --autobackup n vg0 /dev/sdd`",
            ),
            (
                |group| {
                    (group.free, group.room, group.is_at_max_pvs) = (Some(0), Vec::new(), true);
                    group.free_pv = Some("/dev/sdd".into());
                },
                "VG vg0 has no room for it: add the free PV with `vgchange -p 0 vg0` and `vgextend vg0 /dev/sdd`",
            ),
        ];
        for (change, expected) in cases {
            let mut group = group();
            change(&mut group);
            let mut snapshot = volume("snap", VolumeKind::Snapshot);
            let segment = crate::sample::lvm::Segment {
                extents: 10,
                ..Default::default()
            };
            snapshot.layout.push(LvLayout {
                lv: "snap".into(),
                allocation: None,
                segments: vec![segment],
            });
            let topology = topology(group, vec![snapshot.clone()]);
            let found = Extensible::new(&snapshot, &topology, PoolPart::Data);
            assert_eq!(found.by_a_fifth(&snapshot).to_string(), expected);
        }
    }
}
