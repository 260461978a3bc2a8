//! Modules use only modules above them in `src/lib.rs`, so that the list can be read as the story of the program.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules that `lib.rs` lists, in its order.
fn modules(lib: &str) -> Vec<&str> {
    let lines = lib.lines().map(|line| line.trim_start_matches("pub "));
    lines.filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect()
}

/// The modules of this crate that a source text uses outside of its tests and comments.
fn used<'a>(text: &'a str, modules: &[&'a str]) -> Vec<&'a str> {
    let code = without_tests(text);
    let code: String =
        code.iter().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join(" ");
    let mut found: Vec<&str> = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let names = match rest.strip_prefix('{') {
            Some(group) => first_words(group),
            None => vec![word(rest)],
        };
        found.extend(names.iter().filter_map(|name| modules.iter().find(|module| **module == *name)));
    }
    found
}

/// Its lines but for what is there in tests alone: in formatted code an item ends where a line has its indent and a
/// closing brace.
fn without_tests(text: &str) -> Vec<&str> {
    let (mut code, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        let Some(indent) = line.strip_suffix("#[cfg(test)]").filter(|indent| indent.trim().is_empty()) else {
            code.push(line);
            continue;
        };
        let item = lines.find(|line| !line.trim_start().starts_with("#["));
        if item.is_some_and(|line| line.ends_with('{')) {
            let is_end = |line: &&str| line.strip_prefix(indent).is_some_and(|rest| rest.starts_with('}'));
            lines.find(is_end);
        }
    }
    code
}

/// The first word of each member of a `{a::{b, c}, d}`, up to its closing brace.
fn first_words(group: &str) -> Vec<String> {
    let (mut depth, mut names, mut start) = (0, Vec::new(), 0);
    for (index, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(word(group[start..index].trim()));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(word(group[start..index].trim()));
                start = index + 1;
            }
            _ => {}
        }
    }
    names
}

fn word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// One sentence for each use of a module from above it.
fn violations(file: &str, text: &str, modules: &[&str]) -> Vec<String> {
    let place = |name: &str| modules.iter().position(|module| *module == name);
    let own = file.split(['/', '.']).next().unwrap_or_default();
    let Some(own_place) = place(own) else { return Vec::new() };
    let mut found: Vec<String> = used(text, modules)
        .into_iter()
        .filter(|name| place(name) > Some(own_place))
        .map(|name| format!("{file} uses `{name}`, which stands below `{own}`"))
        .collect();
    found.sort();
    found.dedup();
    found
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => files.extend(sources(&entry)),
            // Tests may use whatever they like.
            false if entry.ends_with("tests.rs") => {}
            false if entry.extension().is_some_and(|ending| ending == "rs") => files.push(entry),
            false => {}
        }
    }
    files.sort();
    files
}

#[test]
fn every_module_uses_only_modules_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = fs::read_to_string(src.join("lib.rs")).unwrap();
    let modules = modules(&lib);
    let mut found = Vec::new();
    for file in sources(&src) {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(&src).unwrap().to_str().unwrap();
        found.extend(violations(name, &text, &modules));
    }
    assert!(modules.len() > 10, "{modules:?}");
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

/// An error that SQLite may be the cause of is told by `store::in_words` alone: anything else says it twice.
#[test]
fn errors_of_the_store_are_told_by_one_function() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in ["store", "web", "cli", "check"].iter().flat_map(|folder| sources(&src.join(folder))) {
        let text = fs::read_to_string(&file).unwrap();
        let raw = without_tests(&text).into_iter().find(|line| line.contains("{error:#}"));
        assert_eq!(raw, None, "in {}, which `in_words` tells", file.display());
    }
}

#[test]
fn every_module_has_its_line_of_documentation() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let lines: Vec<&str> = lib.lines().collect();
    for (index, line) in
        lines.iter().enumerate().filter(|(_, line)| line.contains("mod ") && line.ends_with(';'))
    {
        assert!(lines[index - 1].starts_with("/// "), "`{line}` has no line of documentation");
    }
}

#[test]
fn a_violation_is_found_however_it_is_written() {
    let modules = modules("/// One.\npub mod first;\n/// Two.\nmod second;\npub mod third;\n");
    assert_eq!(modules, ["first", "second", "third"]);
    let check = |text: &str, expected: &[&str]| {
        let found = violations("second/part.rs", text, &modules);
        assert_eq!(found.len(), expected.len(), "{text:?}: {found:?}");
        for (found, name) in found.iter().zip(expected) {
            assert!(found.contains(&format!("`{name}`")), "{found}");
        }
    };
    check("use crate::first::Thing;\nuse crate::second::other;\n", &[]);
    check("use crate::third::Thing;\n", &["third"]);
    check("use crate::{first::{A, B}, third};\n", &["third"]);
    check("fn f() { crate::third::g(crate::first::h()) }\n", &["third"]);
    check("pub use crate::third;\n", &["third"]);
    check("// crate::third is below\n/// As [`crate::third`].\n", &[]);
    check("use crate::thirdly::Thing;\n", &[]);
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::third::Thing;\n    fn f() {\n    }\n}\n";
    check(tests, &[]);
    check(&format!("{tests}use crate::third::Thing;\n"), &["third"]);
    check("#[cfg(test)]\nmod tests;\nuse crate::third::Thing;\n", &["third"]);
    check("    #[cfg(test)]\n    #[allow(unused)]\n    use crate::third::Thing;\n", &[]);
}
