//! Whether mylvmbackup's hooks are linked, and whether cowbell receives their messages.

use std::path::{Path, PathBuf};

use super::CheckLine;
use crate::config::Config;
use crate::mylvmbackup::BackupPlan;
use crate::source::backup::{self, HookScript};
use crate::source::files::Root;
use crate::source::hooks::{self, SocketState};

/// mylvmbackup's names for the hooks that cowbell uses.
const NAMES: [&str; 10] = [
    "preconnect",
    "preflush",
    "presnapshot",
    "preunlock",
    "predisconnect",
    "premount",
    "prebackup",
    "backupsuccess",
    "backupfailure",
    "precleanup",
];
/// Hooks that the package provides in Perl, which take precedence; cowbell works without them.
const PACKAGED_IN_PERL: [&str; 2] = ["preflush", "backupfailure"];
/// The socket of the service, and the hooks' default.
const USUAL: &str = "/run/cowbell/hooks";
/// The directories of the scripts: of packages, and as in `docs/mylvmbackup.md` for a build from source.
const PACKAGED: &str = "/usr/share/cowbell/mylvmbackup";
const FROM_SOURCE: &str = "/usr/local/lib/cowbell/mylvmbackup";

/// Checks hooks and socket on a host with mylvmbackup.
pub async fn check(
    config: &Config,
    root: &Root,
    plan: &BackupPlan,
    daemon_runs: bool,
) -> Vec<CheckLine> {
    let mut lines = linked(root, plan).await;
    let path = hook_socket(config).unwrap_or_else(|| USUAL.into());
    lines.push(listener(&path, &hooks::socket_state(&path), daemon_runs));
    if path != Path::new(USUAL) {
        lines.push(CheckLine::Missing(format!(
            "hooks send to {USUAL}, but cowbell listens at {}: set COWBELL_HOOKS to that path in mylvmbackup's environment, or \
             remove `socket` from [hooks]",
            path.display()
        )));
    }
    lines
}

/// The configured socket, or else the one in systemd's runtime directory.
pub fn hook_socket(config: &Config) -> Option<PathBuf> {
    let named = config.hooks.socket.as_ref().map(|path| path.0.clone());
    named
        .or_else(|| Some(Path::new(&std::env::var_os("RUNTIME_DIRECTORY")?).join(hooks::FILE_NAME)))
}

fn listener(path: &Path, socket_state: &SocketState, daemon_runs: bool) -> CheckLine {
    let place = path.display();
    let without = "phases and outcomes of backups are not recorded";
    let sentence = match (socket_state, daemon_runs) {
        (SocketState::Listening, _) => {
            return CheckLine::Good(format!("cowbell receives backup hooks at {place}"));
        }
        (SocketState::Unknown(why), _) => {
            format!(
                "cannot tell whether cowbell receives hooks at {place}: {why}; run `cowbell check` as root"
            )
        }
        (SocketState::Unused, true) => format!(
            "cowbell runs, but no process listens at {place}: {without}; start it as a service, or set `socket` in [hooks], \
             and see its log"
        ),
        (SocketState::Unused, false) => {
            format!(
                "no process listens for hooks at {place}: {without} until cowbell runs; start the service"
            )
        }
    };
    CheckLine::Missing(sentence)
}

async fn linked(root: &Root, plan: &BackupPlan) -> Vec<CheckLine> {
    if plan.skips_hooks {
        return vec![CheckLine::Missing(
            "`skip_hooks` is on, so mylvmbackup calls no hooks: phases and outcomes of backups are not recorded; set it to 0"
                .into(),
        )];
    }
    let mut found = Vec::new();
    for name in NAMES {
        match backup::hook(root, &plan.hooksdir, name).await {
            Ok((hook, has_perl_form)) => found.push((name, hook, has_perl_form)),
            Err(why) => {
                return vec![CheckLine::Missing(format!(
                    "{why}: cannot tell whether its hooks are linked"
                ))];
            }
        }
    }
    let scripts = [PACKAGED, FROM_SOURCE]
        .into_iter()
        .find(|folder| backup::exists(root, folder));
    judge(&plan.hooksdir, &found, scripts)
}

/// Evaluates the hooks: their names, what each is, and whether a Perl hook takes precedence.
fn judge(
    folder: &str,
    found: &[(&str, HookScript, bool)],
    scripts: Option<&str>,
) -> Vec<CheckLine> {
    let in_state = |wanted: HookScript| {
        let found = found.iter().filter(|(_, state, _)| *state == wanted);
        found.map(|(name, ..)| name.to_string()).collect()
    };
    let mut in_perl = Vec::new();
    for (name, _, has_perl_form) in found {
        if *has_perl_form && !PACKAGED_IN_PERL.contains(name) {
            in_perl.push(format!("{name}.pm"));
        }
    }
    let first = match scripts {
        Some(_) => "",
        None => {
            "`sudo mkdir -p /usr/local/lib/cowbell; sudo cp -R systemd/mylvmbackup /usr/local/lib/cowbell/` in cowbell's \
             sources, then "
        }
    };
    let scripts = scripts.unwrap_or(FROM_SOURCE);
    let problems: [(Vec<String>, String, String); 4] = [
        (
            in_state(HookScript::Missing),
            "mylvmbackup's hooks are not linked for these steps".to_string(),
            format!("run {first}`sudo ln -s {scripts}/[pb]* {folder}/`, which replaces nothing"),
        ),
        (
            in_state(HookScript::Another),
            format!("{folder} has other hooks, which do not call cowbell's"),
            format!("let each call the script of its name in {scripts}"),
        ),
        (
            in_state(HookScript::NotExecutable),
            format!("{folder} has hooks that are not executable, so mylvmbackup skips them"),
            "run `chmod +x` on them".into(),
        ),
        (
            in_perl,
            format!("{folder} has Perl hooks, which override the scripts of the same name"),
            format!("let each call the script in {scripts}"),
        ),
    ];
    let mut lines = Vec::new();
    for (names, problem, remedy) in problems {
        if !names.is_empty() {
            let names = names.join(", ");
            lines.push(CheckLine::Missing(format!("{problem}: {names}; {remedy}")));
        }
    }
    if lines.is_empty() {
        lines.push(CheckLine::Good(format!(
            "all ten hooks of mylvmbackup in {folder} call cowbell"
        )));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl Fn(&str) -> (HookScript, bool)) -> String {
        let found: Vec<_> = NAMES
            .iter()
            .map(|name| (*name, change(name).0, change(name).1))
            .collect();
        judge("/hooks", &found, Some(PACKAGED))
            .iter()
            .map(CheckLine::text)
            .collect()
    }

    #[test]
    fn missing_hooks_are_listed_with_the_command_to_run() {
        assert!(check(|_| (HookScript::Ours, false)).starts_with("ok       all ten hooks"));
        let all = check(|_| (HookScript::Missing, false));
        assert!(
            all.contains("preconnect, preflush, presnapshot") && all.contains("[pb]* /hooks/`"),
            "{all}"
        );
        let one = check(|name| {
            (
                if name == "premount" {
                    HookScript::Missing
                } else {
                    HookScript::Ours
                },
                false,
            )
        });
        let without_scripts =
            judge("/hooks", &[("premount", HookScript::Missing, false)], None)[0].text();
        assert!(
            without_scripts
                .contains("premount; run `sudo mkdir -p /usr/local/lib/cowbell; sudo cp"),
            "{without_scripts}"
        );
        assert!(
            one.contains("these steps: premount; run") && one.lines().count() == 1,
            "{one}"
        );
    }

    #[test]
    fn ineffective_hooks_are_listed() {
        let another = check(|name| {
            (
                if name == "preflush" {
                    HookScript::Another
                } else {
                    HookScript::Ours
                },
                false,
            )
        });
        assert!(
            another.contains("do not call cowbell's: preflush"),
            "{another}"
        );
        let skipped = check(|name| {
            (
                if name == "premount" {
                    HookScript::NotExecutable
                } else {
                    HookScript::Ours
                },
                false,
            )
        });
        assert!(
            skipped.contains("not executable") && skipped.contains("premount"),
            "{skipped}"
        );
    }

    #[test]
    fn a_perl_hook_is_reported_unless_it_is_the_packages() {
        assert!(
            check(|name| (HookScript::Ours, PACKAGED_IN_PERL.contains(&name))).starts_with("ok")
        );
        assert!(
            check(|name| (HookScript::Ours, name == "premount"))
                .contains("override the scripts of the same name: premount.pm")
        );
    }

    #[test]
    fn a_socket_is_reported_with_its_listener() {
        let check = |socket_state, daemon_runs| {
            listener(Path::new(USUAL), &socket_state, daemon_runs).text()
        };
        assert!(
            check(SocketState::Listening, true)
                .starts_with("ok       cowbell receives backup hooks at /run/cowbell/hooks")
        );
        assert!(check(SocketState::Unused, true).contains("cowbell runs, but no process listens"));
        assert!(check(SocketState::Unused, false).contains("start the service"));
        assert!(
            check(SocketState::Unknown("no right".into()), true)
                .contains("/run/cowbell/hooks: no right")
        );
    }
}
