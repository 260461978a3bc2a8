//! The order of modules: `src/lib.rs` lists them so that each uses only modules above it, and inside a module no files
//! use one another in a circle. No two types have the same name.

mod uses;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use uses::{Crate, sources, without_tests};

/// The modules that `lib.rs` lists, in its order.
fn modules(lib: &str) -> Vec<&str> {
    let lines = lib.lines().map(|line| line.trim_start_matches("pub "));
    lines
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .collect()
}

#[test]
fn every_module_uses_only_modules_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = fs::read_to_string(src.join("lib.rs")).unwrap();
    let modules = modules(&lib);
    let found = Crate::of(&src, "lib.rs").violations(&modules);
    assert!(modules.len() > 10, "{modules:?}");
    assert!(
        found.is_empty(),
        "{} violations:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// A module's children must not use one another in a circle, each taken with everything below it.
///
/// A parent may use its children, and they may use its own items: a `mod.rs` declares what they share. An item that the
/// parent only re-exports counts as a use of the child that has it.
#[test]
fn no_files_of_a_module_use_one_another_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Crate::of(&root.join("src"), "lib.rs").circles();
    found.extend(Crate::of(&root.join("benches/store"), "main.rs").circles());
    for name in ["archive", "device-mapper", "touched"] {
        let src = root.join("crates").join(name).join("src");
        found.extend(Crate::of(&src, "lib.rs").circles());
    }
    assert!(
        found.is_empty(),
        "{} circles:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// A reader who looks for a name finds one type. Test modules may name their doubles as they like.
#[test]
fn no_type_name_is_declared_twice() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in sources(&src) {
        if file.components().any(|part| part.as_os_str() == "tests") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        for name in without_tests(&text).into_iter().filter_map(declared_type) {
            let places = places.entry(name.into()).or_default();
            places.push(file.strip_prefix(&src).unwrap().display().to_string());
        }
    }
    places.retain(|_, places| places.len() > 1);
    assert!(places.is_empty(), "rename all but one of each: {places:#?}");
}

/// The name of the type that a line declares. An associated type, such as `Output` of `Index`, is indented.
fn declared_type(line: &str) -> Option<&str> {
    let is_indented = line.starts_with(' ');
    let line = line.trim_start();
    let declaration = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let (keyword, rest) = declaration.split_once(' ')?;
    let declares = ["struct", "enum", "trait", "type"].contains(&keyword);
    if !declares || keyword == "type" && is_indented {
        return None;
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[test]
fn a_type_is_found_in_every_notation() {
    for (line, expected) in [
        ("struct Row;", Some("Row")),
        ("pub enum Row {", Some("Row")),
        ("pub(super) struct Row<'a>(&'a str);", Some("Row")),
        ("pub(in crate::web) trait Row: Copy {", Some("Row")),
        ("    struct Row {", Some("Row")),
        ("type Row = (f64, f64);", Some("Row")),
        ("    type Output = Row;", None),
        ("/// struct of a row", None),
        ("fn type_name() {", None),
    ] {
        assert_eq!(declared_type(line), expected, "{line}");
    }
}

/// In "Two walks", and the files in "Where an addition goes". Names follow their file in the same line.
#[test]
fn files_and_names_in_the_architecture_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, walks) = text.split_once("## Two walks\n").unwrap();
    let (walks, _) = walks.split_once("## Threads\n").unwrap();
    let mut names = 0;
    for line in walks.lines().filter(|line| !line.starts_with("Each step")) {
        let mut file: Option<(&str, String)> = None;
        for quoted in line.split('`').skip(1).step_by(2) {
            if quoted.starts_with("src/") || quoted.starts_with("web/") {
                let path = root.join(quoted);
                assert!(path.exists(), "{quoted} does not exist: {line}");
                let content = fs::read_to_string(path).unwrap_or_default();
                file = Some((quoted, content));
            } else if let Some((path, content)) = &file
                && line.starts_with(char::is_numeric)
            {
                assert!(content.contains(quoted), "{path} has no {quoted}: {line}");
                names += 1;
            }
        }
    }
    assert!(names > 20, "only {names} names were found");
}

/// An error that SQLite may be the cause of is told by `store::in_words` alone: anything else says it twice.
#[test]
fn errors_of_the_store_are_told_by_one_function() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in ["store", "web", "cli", "check"]
        .iter()
        .flat_map(|folder| sources(&src.join(folder)))
    {
        let text = fs::read_to_string(&file).unwrap();
        let raw = without_tests(&text)
            .into_iter()
            .find(|line| line.contains("{error:#}"));
        assert_eq!(raw, None, "in {}, which `in_words` tells", file.display());
    }
}

#[test]
fn every_module_has_its_line_of_documentation() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let lines: Vec<&str> = lib.lines().collect();
    for (index, line) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.contains("mod ") && line.ends_with(';'))
    {
        assert!(
            lines[index - 1].starts_with("/// "),
            "`{line}` has no line of documentation"
        );
    }
}

/// A crate of these files, whose root is `lib.rs`.
fn constructed(files: &[(&str, &str)]) -> Crate {
    Crate::of_texts(
        files
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string())),
        "lib.rs",
    )
}

#[test]
fn a_violation_is_found_in_every_notation() {
    let check = |text: &str, expected: &[&str]| {
        let files = [
            ("lib.rs", ""),
            ("first.rs", ""),
            ("second/mod.rs", ""),
            ("second/part.rs", text),
            ("third.rs", ""),
        ];
        let found = constructed(&files).violations(&["first", "second", "third"]);
        assert_eq!(found.len(), expected.len(), "{text:?}: {found:?}");
        for (found, name) in found.iter().zip(expected) {
            assert!(found.contains(&format!("`{name}`")), "{found}");
        }
    };
    check("use crate::first::Thing;\nuse crate::second::other;\n", &[]);
    check("use crate::third::Thing;\n", &["third"]);
    check("use crate::{first::{A, B}, third};\n", &["third"]);
    check(
        "fn f() { crate::third::g(crate::first::h()) }\n",
        &["third"],
    );
    check("use super::super::third::Thing;\n", &["third"]);
    check(
        "use super::super::{first::A, third::{B as C}};\n",
        &["third"],
    );
    check("pub use crate::third;\n", &["third"]);
    check("// crate::third is below\n/// As [`crate::third`].\n", &[]);
    check("use crate::thirdly::Thing;\n", &[]);
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::third::Thing;\n    fn f() {\n    }\n}\n";
    check(tests, &[]);
    check(&format!("{tests}use crate::third::Thing;\n"), &["third"]);
    check(
        "#[cfg(test)]\nmod tests;\nuse crate::third::Thing;\n",
        &["third"],
    );
    check(
        "    #[cfg(test)]\n    #[allow(unused)]\n    use crate::third::Thing;\n",
        &[],
    );
}

#[test]
fn a_circle_is_found_in_every_notation() {
    let check = |parent: &str, one: &str, other: &str, deep: &str, expected: &[&str]| {
        let files = [
            ("lib.rs", ""),
            ("m/mod.rs", parent),
            ("m/one.rs", one),
            ("m/other.rs", other),
            ("m/other/deep.rs", deep),
        ];
        assert_eq!(
            constructed(&files).circles(),
            expected,
            "{parent:?} {one:?} {other:?} {deep:?}"
        );
    };
    let found = ["in `crate::m`: one → other → one"];
    check(
        "",
        "use super::other::A;",
        "use crate::m::one::B;",
        "",
        &found,
    );
    check(
        "",
        "use super::other::A;",
        "",
        "use super::super::one;",
        &found,
    );
    check(
        "",
        "fn f() { super::other::g() }",
        "use super::{C, one::B};",
        "",
        &found,
    );
    check(
        "pub use other::{A, B};",
        "use super::A;",
        "use super::one::C;",
        "",
        &found,
    );
    check(
        "pub use one::A;\npub use other::B;",
        "use super::{A, Own};",
        "use super::{Own, A};",
        "",
        &[],
    );
    check(
        "use one::A;\nuse self::other::B;",
        "use super::own;",
        "use super::own;",
        "use crate::m::own;",
        &[],
    );
    check(
        "",
        "use super::other::A;",
        "use deep::C;",
        "use super::D;",
        &[],
    );
}
