//! Read errors of block devices and file systems, from messages in the kernel's log.

/// Names of devices with a read error, such as `sda` or `dm-3`, each once.
pub fn devices_with_read_errors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = text.lines().filter_map(device).map(String::from).collect();
    found.sort();
    found.dedup();
    found
}

/// Sources: `blk_print_req_error` in `block/blk-mq.c`; `buffer_io_error` in `fs/buffer.c`; `xfs_printk_level`; `ext4_msg`.
fn device(line: &str) -> Option<&str> {
    let name_after = |marker: &str, ends: &[char]| {
        let rest = line.split_once(marker)?.1;
        Some(rest.split(ends).next().unwrap_or_default())
    };
    let found = if line.contains(" error, dev ") || line.contains("I/O error on dev") {
        // A rejected discard or a failed write loses nothing that a backup reads.
        let is_other = line.contains(" op ") && !line.contains(":(READ)");
        if is_other || line.contains("write") {
            return None;
        }
        name_after(" dev ", &[',', ' ']).or_else(|| name_after(" device ", &[',', ' ']))
    } else if line.contains("-fs error") || line.contains("BTRFS error") {
        name_after("(device ", &[')', ':'])
    } else {
        name_after("XFS (", &[')']).filter(|_| line.contains("I/O error"))
    };
    found.filter(|name| !name.is_empty() && name.len() <= 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_errors_name_their_device() {
        for (line, expected) in [
            (
                "I/O error, dev sda, sector 123 op 0x0:(READ) flags 0x80700 phys_seg 4 prio class 2",
                Some("sda"),
            ),
            (
                "blk_update_request: I/O error, dev nvme0n1, sector 5 op 0x0:(READ) flags 0x0",
                Some("nvme0n1"),
            ),
            ("print_req_error: I/O error, dev sdb, sector 5", Some("sdb")),
            (
                "blk_update_request: critical medium error, dev sdb, sector 5 op 0x0:(READ)",
                Some("sdb"),
            ),
            (
                "critical target error, dev sda, sector 5 op 0x3:(DISCARD) flags 0x800",
                None,
            ),
            (
                "I/O error, dev sda, sector 5 op 0x1:(WRITE) flags 0x800",
                None,
            ),
            (
                "Buffer I/O error on dev dm-3, logical block 0, async page read",
                Some("dm-3"),
            ),
            (
                "Buffer I/O error on dev dm-3, logical block 0, lost async page write",
                None,
            ),
            (
                "Buffer I/O error on device dm-3, logical block 7",
                Some("dm-3"),
            ),
            (
                "EXT4-fs error (device dm-3): ext4_find_entry:1455: inode #2: reading directory",
                Some("dm-3"),
            ),
            (
                "EXT4-fs error (device dm-3) in ext4_free_inode: IO failure",
                Some("dm-3"),
            ),
            (
                "XFS (dm-3): metadata I/O error in \"xfs_imap_to_bp\" at daddr 0x40 len 32 error 5",
                Some("dm-3"),
            ),
            ("XFS (dm-3): Mounting V5 Filesystem", None),
            (
                "BTRFS error (device dm-3): parent transid verify failed",
                Some("dm-3"),
            ),
            ("usb 1-1: device descriptor read/64, error -71", None),
            ("", None),
        ] {
            assert_eq!(device(line), expected, "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n| error, dev |XFS \\()*") {
            devices_with_read_errors(&text);
        }
    }
}
