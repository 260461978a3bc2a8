//! Archives that no tar makes.

use proptest::prelude::*;

use super::*;

/// A member with this name, type and size field, and a valid checksum.
fn header(name: &[u8], kind: u8, size: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name);
    block[124..124 + size.len()].copy_from_slice(size);
    block[156] = kind;
    let magic = if kind == b'x' {
        b"ustar\x0000"
    } else {
        b"ustar  \0"
    };
    block[257..265].copy_from_slice(magic);
    sealed(block)
}

fn sealed(mut block: Vec<u8>) -> Vec<u8> {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// A whole archive of these blocks.
fn archive(blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = blocks.concat();
    bytes.resize(bytes.len().next_multiple_of(512) + 1024, 0);
    bytes
}

fn found(bytes: &[u8]) -> Examination {
    examine(bytes).unwrap()
}

fn finding(bytes: &[u8]) -> String {
    found(bytes)
        .findings
        .list
        .first()
        .cloned()
        .unwrap_or_default()
}

#[test]
fn hostile_names_are_shown_without_control_characters() {
    let name = b"../../etc/\x1b[31m\xff\n\xe2\x80\xae.frm";
    let bytes = archive(&[header(name, b'0', b"00000000010\0"), vec![0; 8]]);
    assert_eq!(
        finding(&bytes),
        "../../etc/\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}.frm contains only zeros, which such a file never does."
    );
    assert_eq!(shown(&[b'n'; 5000]), "n".repeat(200) + "…");
}

#[test]
fn impossible_sizes_are_errors() {
    for (size, expected) in [
        (
            &b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..],
            "negative binary number where unsigned expected",
        ),
        (
            b"\x80\0\0\x01\xff\xff\xff\xff\xff\xff\xff\xff",
            "numeric field overflow",
        ),
        (b"9", "invalid octal numeric field"),
        (b"-1", "invalid octal numeric field"),
    ] {
        let text = finding(&archive(&[header(b"data", b'0', size)]));
        assert_eq!(
            text,
            format!(
                "The tar archive is damaged at byte 0, where the header of a member begins: {expected}."
            )
        );
    }
    // As large as possible, and not there.
    let text = finding(&archive(&[header(
        b"data",
        b'0',
        b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
    )]));
    assert!(
        text.starts_with("The tar archive ends within data, of which 92233720368547"),
        "{text}"
    );
}

#[test]
fn an_endless_name_is_not_held_in_memory() {
    for kind in [b'L', b'x'] {
        let text = finding(&archive(&[header(b"long", kind, b"77777777777\0")]));
        assert!(
            text.ends_with("tar metadata exceeds 1 MiB limit."),
            "{text}"
        );
    }
}

#[test]
fn records_of_a_pax_header_must_have_their_length() {
    for text in [
        "18446744073709551615 path=x\n",
        "5 path",
        "0 a=b\n",
        "11 path=data",
        "x path=data\n",
        "3 \n",
    ] {
        let size = format!("{:011o}\0", text.len());
        let mut block = text.as_bytes().to_vec();
        block.resize(512, 0);
        let found = finding(&archive(&[header(b"pax", b'x', size.as_bytes()), block]));
        assert!(
            found.starts_with("The tar archive is damaged at byte 0, where"),
            "{text:?}: {found}"
        );
    }
}

/// A sparse file of this size with one segment.
fn sparse(offset: &[u8], length: &[u8], size: &[u8]) -> Vec<u8> {
    let mut block = header(b"t.dat", b'S', b"00000001000\0");
    block[386..386 + offset.len()].copy_from_slice(offset);
    block[398..398 + length.len()].copy_from_slice(length);
    block[483..483 + size.len()].copy_from_slice(size);
    archive(&[sealed(block), vec![1; 512]])
}

#[test]
fn holes_have_a_limit() {
    let whole = found(&sparse(b"00000001000", b"00000001000", b"00000010000"));
    assert_eq!(
        (whole.figures.bytes, whole.findings.list.len()),
        (4096, 0),
        "{whole:?}"
    );
    // Seven exabytes.
    let huge = found(&sparse(
        b"00000001000",
        b"00000001000",
        b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
    ));
    assert_eq!(
        (huge.figures.bytes, huge.findings.list.len()),
        (0, 0),
        "{huge:?}"
    );
    for (offset, length) in [
        (&b"00000010000"[..], &b"00000001000"[..]),
        (b"0", b"00000000777"),
        (b"0", b"77777777777"),
    ] {
        let text = finding(&sparse(offset, length, b"00000010000"));
        assert!(
            text.contains("damaged at byte 0") && text.contains("sparse"),
            "{text}"
        );
    }
}

#[test]
fn findings_are_counted_beyond_a_screen() {
    let member = |number: u32| {
        [
            header(format!("{number}.frm").as_bytes(), b'0', b"1"),
            vec![0; 512],
        ]
        .concat()
    };
    let members: Vec<Vec<u8>> = (0..1000).map(member).collect();
    let findings = found(&archive(&members)).findings;
    assert_eq!(
        (findings.list.len(), findings.more),
        (MOST_FINDINGS, 1000 - MOST_FINDINGS as u64)
    );
}

#[test]
fn bytes_behind_the_end_are_damage() {
    let mut bytes = archive(&[header(b"data", b'0', b"0")]);
    bytes.extend([0; 9000]);
    assert!(found(&bytes).findings.is_empty());
    bytes.extend([1; 5]);
    assert!(finding(&bytes).starts_with("There are other bytes behind the end of the tar archive"));
}

#[test]
fn a_lone_block_of_zeros_is_no_end_of_an_archive() {
    let member = || header(b"data", b'0', b"0");
    let text = finding(&archive(&[member(), vec![0; 512], member()]));
    assert_eq!(
        text,
        "The tar archive is damaged at byte 512, where the header of a member begins: tar zero block was not followed by a \
         second zero block."
    );
    assert!(
        found(&[member(), vec![0; 512]].concat())
            .findings
            .is_empty(),
        "an old tar writes one"
    );
}

#[test]
fn zeros_of_a_file_are_no_end_of_an_archive() {
    let member = [header(b"data", b'0', b"00000001000\0"), vec![0; 512]].concat();
    assert_eq!(
        finding(&member),
        "The tar archive ends after 1024 bytes without the blocks of zeros at its end: tar was probably killed, and files \
         are missing."
    );
}

/// The first page of a tablespace, with its flags, pages and free limit.
fn first_page(flags: u32, rest: &[u8]) -> Vec<u8> {
    let mut page = vec![0; 64 * 1024];
    page[25] = 8;
    page[54..58].copy_from_slice(&flags.to_be_bytes());
    let end = rest.len().min(page.len() - 64);
    page[64..64 + end].copy_from_slice(&rest[..end]);
    page
}

proptest! {
    #[test]
    fn any_bytes_are_examined(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        let _ = examine(&*bytes);
        let _ = examine(&*archive(&[header(b"d/t.ibd", b'0', b"00000002000"), bytes.clone()]));
        let _ = examine(&*archive(&[header(b"d/pax", b'x', b"00000000700"), bytes]));
    }

    #[test]
    fn any_tablespace_is_examined(flags: u32, rest in proptest::collection::vec(any::<u8>(), 0..2000), size in 0u64..300_000) {
        for is_system in [false, true] {
            let mut tablespace = Tablespace::new(is_system, size);
            tablespace.push(&first_page(flags, &rest));
            tablespace.push(&rest);
            tablespace.push(&first_page(flags, &rest));
            tablespace.push(&[0; 70_000]);
            tablespace.finish();
        }
    }

    #[test]
    fn any_redo_log_is_examined(format in prop_oneof![Just(*b"Phys"), any::<[u8; 4]>()], bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let mut redo = Redo::new(bytes.len() as u64);
        redo.push(&format);
        redo.push(&bytes);
        redo.push(b"./t/name.ibd");
        redo.push(&bytes);
        redo.finish();
    }
}
