//! The files of a crate, and which module uses which.
//!
//! Paths are read from the text of formatted code; tests and comments are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's path from the crate's root, as `["job", "figures"]`.
type Module = Vec<String>;

/// The files of a crate, and what each uses.
#[derive(Default)]
pub struct Crate {
    /// For each file's module, the paths that its code names outside of tests, each from the crate's root.
    paths: BTreeMap<Module, Vec<Module>>,
    /// Names that a module re-exports from another: the module and name, and the path that they stand for.
    exports: BTreeMap<(Module, String), Module>,
}

impl Crate {
    /// Reads every source file below a folder. `root` is the file that declares the top modules.
    pub fn of(folder: &Path, root: &str) -> Self {
        let files = sources(folder).into_iter().map(|file| {
            let name = file
                .strip_prefix(folder)
                .unwrap()
                .to_str()
                .unwrap()
                .to_string();
            (name, fs::read_to_string(file).unwrap())
        });
        Self::of_texts(files, root)
    }

    pub fn of_texts(files: impl Iterator<Item = (String, String)>, root: &str) -> Self {
        let texts: BTreeMap<Module, String> = files
            .map(|(name, text)| (module_of(&name, root), code(&text)))
            .collect();
        let mut found = Self::default();
        for (module, code) in &texts {
            let is_child = |name: &str| texts.contains_key(&child(module, name));
            let paths = paths(code, module, &is_child);
            for path in paths
                .iter()
                .filter(|path| path.starts_with(module) && path.len() > module.len() + 1)
            {
                found
                    .exports
                    .insert((module.clone(), path[path.len() - 1].clone()), path.clone());
            }
            found.paths.insert(module.clone(), paths);
        }
        found
    }

    /// The module that a path leads to, through re-exports.
    fn target(&self, path: &[String]) -> Module {
        let mut module = Module::new();
        for (index, name) in path.iter().enumerate() {
            let next = child(&module, name);
            if self.paths.contains_key(&next) {
                module = next;
            } else if let Some(export) = self.exports.get(&(module.clone(), name.clone())) {
                return if export == path {
                    export[..index].to_vec()
                } else {
                    self.target(export)
                };
            } else {
                break;
            }
        }
        module
    }

    /// Each use of one module by another, with neither inside the other.
    fn uses(&self) -> BTreeSet<(Module, Module)> {
        let uses = |(module, paths): (&Module, &Vec<Module>)| {
            let targets = paths.iter().map(|path| self.target(path));
            let others =
                targets.filter(|other| !other.starts_with(module) && !module.starts_with(other));
            others
                .map(|other| (module.clone(), other))
                .collect::<Vec<_>>()
        };
        self.paths.iter().flat_map(uses).collect()
    }

    /// One sentence for each use of a top module from above it. `order` lists them from above.
    pub fn violations(&self, order: &[&str]) -> Vec<String> {
        let place = |module: &Module| {
            order
                .iter()
                .position(|name| Some(*name) == module.first().map(|n| &**n))
        };
        let uses = self
            .uses()
            .into_iter()
            .filter(|(module, other)| place(other) > place(module));
        uses.filter(|(module, _)| place(module).is_some())
            .map(|(module, other)| {
                format!(
                    "`{}` uses `{}`, which stands below it",
                    text(&module),
                    text(&other)
                )
            })
            .collect()
    }

    /// One sentence for each module whose children use one another in a circle.
    pub fn circles(&self) -> Vec<String> {
        let mut siblings: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (module, other) in self.uses() {
            let depth = module
                .iter()
                .zip(&other)
                .take_while(|(one, other)| one == other)
                .count();
            let uses = siblings.entry(module[..depth].to_vec()).or_default();
            uses.entry(module[depth].clone())
                .or_default()
                .insert(other[depth].clone());
        }
        let mut found = Vec::new();
        for (parent, uses) in &siblings {
            found.extend(
                circle(uses)
                    .map(|names| format!("in `crate::{}`: {}", text(parent), names.join(" → "))),
            );
        }
        found
    }
}

/// The names of one circle, the first again at its end; `None` if there is none.
fn circle(uses: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut left = uses.clone();
    loop {
        let names: BTreeSet<String> = left.keys().cloned().collect();
        left.values_mut()
            .for_each(|used| used.retain(|name| names.contains(name)));
        let before = left.len();
        left.retain(|_, used| !used.is_empty());
        if left.len() == before {
            break;
        }
    }
    // Each name that is left uses another that is left.
    let mut walked = vec![left.keys().next()?.clone()];
    loop {
        let next = left[&walked[walked.len() - 1]].first()?.clone();
        if let Some(start) = walked.iter().position(|name| *name == next) {
            return Some(walked[start..].iter().cloned().chain([next]).collect());
        }
        walked.push(next);
    }
}

/// The module of a file, such as `job/tracker/mod.rs` or `job/growth.rs`.
fn module_of(file: &str, root: &str) -> Module {
    let name = file.strip_suffix(".rs").unwrap_or(file);
    let name = if file == root {
        ""
    } else {
        name.strip_suffix("/mod").unwrap_or(name)
    };
    name.split('/')
        .filter(|name| !name.is_empty())
        .map(String::from)
        .collect()
}

fn child(module: &Module, name: &str) -> Module {
    module.iter().cloned().chain([name.to_string()]).collect()
}

fn text(module: &[String]) -> String {
    module.join("::")
}

/// A source text without tests and comments.
fn code(text: &str) -> String {
    let lines = without_tests(text)
        .into_iter()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join(" ")
}

/// All paths in a module's code that begin with `crate`, `super`, `self` or one of its children, from the crate's root.
fn paths(code: &str, module: &Module, is_child: &dyn Fn(&str) -> bool) -> Vec<Module> {
    let mut found = Vec::new();
    let mut rest = code;
    let mut is_path_start = true;
    while let Some(letter) = rest.chars().next() {
        let first = word(rest);
        let base = match first {
            _ if !is_path_start || !rest[first.len()..].starts_with("::") => None,
            "crate" => Some((Module::new(), 0)),
            "self" => Some((module.clone(), 0)),
            "super" => Some((module.clone(), 1)),
            _ if is_child(first) => Some((child(module, first), 0)),
            _ => None,
        };
        if let Some((mut base, up)) = base {
            base.truncate(base.len().saturating_sub(up));
            expand(&rest[first.len() + 2..], base, &mut found);
        }
        is_path_start = first.is_empty() && letter != ':';
        rest = &rest[first.len().max(letter.len_utf8())..];
    }
    found
}

/// Adds the paths of `a::{b::c, d}` after a base, and gives what follows them.
fn expand<'a>(text: &'a str, base: Module, found: &mut Vec<Module>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = expand(rest, base.clone(), found).trim_start();
            // `name as other`
            let end = rest.find([',', '}']).unwrap_or(rest.len());
            match rest[end..].strip_prefix(',') {
                Some(next) if !next.trim_start().starts_with('}') => rest = next,
                _ => return rest[end..].split_once('}').map_or("", |(_, rest)| rest),
            }
        }
    }
    let name = word(text);
    let rest = &text[name.len()..];
    let path = match name {
        "super" => base[..base.len().saturating_sub(1)].to_vec(),
        "self" | "" => base,
        _ => child(&base, name),
    };
    match rest.strip_prefix("::").filter(|_| !name.is_empty()) {
        Some(rest) => expand(rest, path, found),
        None => {
            found.push(path);
            rest
        }
    }
}

fn word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Its lines without items that only tests have. In formatted code an item ends at a closing brace with its own indent.
pub fn without_tests(text: &str) -> Vec<&str> {
    let (mut code, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        let Some(indent) = line
            .strip_suffix("#[cfg(test)]")
            .filter(|indent| indent.trim().is_empty())
        else {
            code.push(line);
            continue;
        };
        let item = lines.find(|line| !line.trim_start().starts_with("#["));
        if item.is_some_and(|line| line.ends_with('{')) {
            let is_end = |line: &&str| {
                line.strip_prefix(indent)
                    .is_some_and(|rest| rest.starts_with('}'))
            };
            lines.find(is_end);
        }
    }
    code
}

pub fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        match entry.is_dir() {
            true => files.extend(sources(&entry)),
            // Tests may use every module.
            false if entry.ends_with("tests.rs") => {}
            false if entry.extension().is_some_and(|ending| ending == "rs") => files.push(entry),
            false => {}
        }
    }
    files.sort();
    files
}
