//! Whether the hooks of mylvmbackup are linked, and whether what they say would be heard.

use std::path::{Path, PathBuf};

use super::Finding;
use crate::config::Config;
use crate::sample::mylvmbackup::BackupPlan;
use crate::source::backup::{self, Hook};
use crate::source::files::Root;
use crate::source::hooks::{self, Listener};

/// The hooks that tell cowbell, by the names that mylvmbackup calls them by.
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
/// Those of which the package brings a Perl form, which wins; cowbell does without them.
const PACKAGED_IN_PERL: [&str; 2] = ["preflush", "backupfailure"];
/// Where the service's folder is, and where hooks speak to when nothing else is said to them.
const USUAL: &str = "/run/cowbell/hooks";
/// Where the README puts the scripts.
const SCRIPTS: &str = "/usr/local/lib/cowbell/mylvmbackup";

/// Both, for a host that has mylvmbackup.
pub async fn check(config: &Config, root: &Root, plan: &BackupPlan, daemon_runs: bool) -> Vec<Finding> {
    let mut findings = linked(root, plan).await;
    let path = socket(config);
    findings.push(heard(&path, &hooks::listener(&path), daemon_runs));
    if path != Path::new(USUAL) {
        findings.push(Finding::Missing(format!(
            "hooks speak to {USUAL}, but cowbell listens at {}: name that in COWBELL_HOOKS in mylvmbackup's environment, or \
             leave `socket` out of [hooks]",
            path.display()
        )));
    }
    findings
}

/// Where `serve` listens, or would as a service.
fn socket(config: &Config) -> PathBuf {
    let named = config.hooks.socket.as_ref().map(|path| path.0.clone());
    let of_systemd = || Some(Path::new(&std::env::var_os("RUNTIME_DIRECTORY")?).join(hooks::FILE_NAME));
    named.or_else(of_systemd).unwrap_or_else(|| USUAL.into())
}

fn heard(path: &Path, listener: &Listener, daemon_runs: bool) -> Finding {
    let place = path.display();
    let without = "phases of backups and their outcome are not seen";
    let sentence = match (listener, daemon_runs) {
        (Listener::Listens, _) => return Finding::Good(format!("hooks of backups are heard at {place}")),
        (Listener::Refuses(why), _) => {
            format!("whether hooks are heard at {place} is not known: {why}; run `cowbell check` as root")
        }
        (Listener::Nobody, true) => format!(
            "cowbell runs, but nobody listens at {place}: {without}; start it as a service, or say where in [hooks] \
             `socket`, and see its log"
        ),
        (Listener::Nobody, false) => {
            format!(
                "nobody listens for hooks at {place} now: {without} until cowbell runs; start the service"
            )
        }
    };
    Finding::Missing(sentence)
}

async fn linked(root: &Root, plan: &BackupPlan) -> Vec<Finding> {
    if plan.skips_hooks {
        return vec![Finding::Missing(
            "`skip_hooks` is on, so mylvmbackup tells cowbell nothing: phases and outcomes of backups are not seen; set \
             it to 0"
                .into(),
        )];
    }
    let mut found = Vec::new();
    for name in NAMES {
        match backup::hook(root, &plan.hooksdir, name).await {
            Ok((hook, has_perl_form)) => found.push((name, hook, has_perl_form)),
            Err(why) => {
                return vec![Finding::Missing(format!("{why}: whether its hooks are linked is not known"))];
            }
        }
    }
    judge(&plan.hooksdir, &found, backup::exists(root, SCRIPTS))
}

/// What is to be said of hooks, by their names, what each is, and whether a Perl form wins over it.
fn judge(folder: &str, found: &[(&str, Hook, bool)], has_scripts: bool) -> Vec<Finding> {
    let named = |is_it: &dyn Fn(&(&str, Hook, bool)) -> bool| -> Vec<&str> {
        found.iter().filter(|hook| is_it(hook)).map(|(name, ..)| *name).collect()
    };
    let is_known_in_perl = |name: &str| PACKAGED_IN_PERL.contains(&name);
    let missing = named(&|(_, hook, _)| *hook == Hook::NotThere);
    let other = named(&|(_, hook, _)| *hook == Hook::Another);
    let not_executable = named(&|(_, hook, _)| *hook == Hook::NotExecutable);
    let in_perl = named(&|(name, _, has_perl_form)| *has_perl_form && !is_known_in_perl(name));
    let first = match has_scripts {
        true => "",
        false => {
            "`sudo mkdir -p /usr/local/lib/cowbell; sudo cp -R systemd/mylvmbackup /usr/local/lib/cowbell/` in cowbell's \
                  sources, then "
        }
    };
    let mut findings = Vec::new();
    let mut say = |names: &[&str], sentence: String| {
        if !names.is_empty() {
            findings.push(Finding::Missing(sentence));
        }
    };
    say(
        &missing,
        format!(
            "of mylvmbackup's hooks these are not linked, so that cowbell does not learn of those steps: {}; run \
         {first}`sudo ln -s {SCRIPTS}/[pb]* {folder}/`, which leaves alone what is there",
            missing.join(", ")
        ),
    );
    say(
        &other,
        format!(
            "{folder} has hooks of your own that do not call cowbell's: {}; let each call that of its name in {SCRIPTS}",
            other.join(", ")
        ),
    );
    say(
        &not_executable,
        format!(
            "{folder} has hooks that cannot be executed, so that mylvmbackup passes them over: {}; run `chmod +x` with them",
            not_executable.join(", ")
        ),
    );
    say(
        &in_perl,
        format!(
            "{folder} has hooks in Perl that win over the scripts of their name: {}; let each call the script in {SCRIPTS}",
            in_perl.iter().map(|name| format!("{name}.pm")).collect::<Vec<_>>().join(", ")
        ),
    );
    if findings.is_empty() {
        findings.push(Finding::Good(format!("all ten hooks of mylvmbackup in {folder} tell cowbell")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(change: impl Fn(&str) -> (Hook, bool)) -> String {
        let found: Vec<_> = NAMES.iter().map(|name| (*name, change(name).0, change(name).1)).collect();
        judge("/hooks", &found, true).iter().map(Finding::line).collect()
    }

    #[test]
    fn hooks_that_are_missing_are_named_with_what_to_run() {
        assert!(said(|_| (Hook::Ours, false)).starts_with("ok       all ten hooks"));
        let all = said(|_| (Hook::NotThere, false));
        assert!(all.contains("preconnect, preflush, presnapshot") && all.contains("[pb]* /hooks/`"), "{all}");
        let one = said(|name| (if name == "premount" { Hook::NotThere } else { Hook::Ours }, false));
        let without_scripts = judge("/hooks", &[("premount", Hook::NotThere, false)], false)[0].line();
        assert!(
            without_scripts.contains("premount; run `sudo mkdir -p /usr/local/lib/cowbell; sudo cp"),
            "{without_scripts}"
        );
        assert!(one.contains("those steps: premount; run") && one.lines().count() == 1, "{one}");
    }

    #[test]
    fn hooks_that_do_not_tell_are_named() {
        let another = said(|name| (if name == "preflush" { Hook::Another } else { Hook::Ours }, false));
        assert!(another.contains("do not call cowbell's: preflush"), "{another}");
        let ignored_keys =
            said(|name| (if name == "premount" { Hook::NotExecutable } else { Hook::Ours }, false));
        assert!(
            ignored_keys.contains("cannot be executed") && ignored_keys.contains("premount"),
            "{ignored_keys}"
        );
    }

    #[test]
    fn a_perl_form_is_only_told_of_where_the_package_brings_none() {
        assert!(said(|name| (Hook::Ours, PACKAGED_IN_PERL.contains(&name))).starts_with("ok"));
        assert!(
            said(|name| (Hook::Ours, name == "premount"))
                .contains("win over the scripts of their name: premount.pm")
        );
    }

    #[test]
    fn a_socket_is_told_with_who_should_listen_there() {
        let said = |listener, daemon_runs| heard(Path::new(USUAL), &listener, daemon_runs).line();
        assert!(
            said(Listener::Listens, true)
                .starts_with("ok       hooks of backups are heard at /run/cowbell/hooks")
        );
        assert!(said(Listener::Nobody, true).contains("cowbell runs, but nobody listens"));
        assert!(said(Listener::Nobody, false).contains("start the service"));
        assert!(said(Listener::Refuses("no right".into()), true).contains("not known: no right"));
    }
}
