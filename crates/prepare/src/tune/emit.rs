//! Settings as text for what needs a boot or has to outlive one. Nothing is written anywhere: a person installs it.

use super::{Key, Profile, ProfileSetting, TuneError};
use host::knob::EthtoolPart;
use std::fmt::Write as _;
use std::str::FromStr as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The kernel's command line, for /etc/default/grub.d.
    Grub,
    /// A unit that applies the profile at boot and undoes it when stopped.
    Systemd,
    Tuned,
    /// Rules for a network device, whenever it appears.
    Udev,
}

/// The text. `device`: for [`Form::Udev`]; `program`: windhover's path; `arguments`: those of `tune apply`.
pub fn emit(
    profile: &Profile,
    form: Form,
    device: Option<&str>,
    program: &str,
    arguments: &[String],
) -> Result<String, TuneError> {
    match form {
        Form::Grub => Ok(grub(profile)),
        Form::Systemd => Ok(systemd(profile, program, arguments)),
        Form::Tuned => Ok(tuned(profile, device)),
        Form::Udev => match device {
            Some(device) if device.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) => {
                Ok(udev(profile, device))
            }
            Some(device) => Err(TuneError::profile(&profile.name, format!("'{device}' cannot be written into a rule"))),
            None => Err(TuneError::profile(&profile.name, "rules for udev are about a network device: --nic IF")),
        },
    }
}

fn settings(profile: &Profile) -> impl Iterator<Item = (Key, &ProfileSetting)> {
    profile.settings.iter().filter_map(|reasoned| Some((Key::from_str(&reasoned.setting.key).ok()?, reasoned)))
}

fn left_out(text: &mut String, left: &[String]) {
    if !left.is_empty() {
        let _ = writeln!(text, "# Not in here: {}", left.join(", "));
    }
}

/// What a form has for each setting; and the keys of those that it has no words for.
fn in_words(
    profile: &Profile,
    words: impl Fn(&Key, &str) -> Option<String>,
) -> (Vec<(String, &ProfileSetting)>, Vec<String>) {
    let (mut found, mut left) = (Vec::new(), Vec::new());
    for (key, reasoned) in settings(profile) {
        match words(&key, &reasoned.setting.value) {
            Some(words) => found.push((words, reasoned)),
            None => left.push(reasoned.setting.key.clone()),
        }
    }
    (found, left)
}

fn grub(profile: &Profile) -> String {
    let (found, left) = in_words(profile, |key, value| match key {
        Key::Machine(setting) => setting.row().grub.map(|words| words(value)),
        Key::Sysctl(name) if name == "kernel.nmi_watchdog" => Some(format!("nmi_watchdog={value}")),
        Key::Sysctl(name) if name == "kernel.numa_balancing" => {
            Some(format!("numa_balancing={}", if value == "0" { "disable" } else { "enable" }))
        }
        _ => None,
    });
    let boot = profile.boot.iter().map(|parameter| (parameter.value.clone(), &parameter.why));
    let parameters: Vec<_> = boot.chain(found.into_iter().map(|(words, reasoned)| (words, &reasoned.why))).collect();
    let mut text = format!("# windhover tune emit {} --grub\n", profile.name);
    text.push_str("# Save as /etc/default/grub.d/windhover.cfg, run update-grub (or grub2-mkconfig), boot.\n");
    for (parameter, why) in &parameters {
        let _ = writeln!(text, "# {parameter}: {why}");
    }
    left_out(&mut text, &left);
    let parameters: Vec<&str> = parameters.iter().map(|(parameter, _)| parameter.as_str()).collect();
    let _ = writeln!(text, "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {}\"", parameters.join(" "));
    text
}

/// A word in a unit's command line (systemd.service(5), "Command lines").
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut text = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '%' | '$' => text.extend([c, c]),
            _ => text.push(c),
        }
    }
    text.push('"');
    text
}

fn systemd(profile: &Profile, program: &str, arguments: &[String]) -> String {
    let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
    let program = quoted(program);
    let mut text = format!(
        "# windhover tune emit {name} --systemd\n\
         # Save as /etc/systemd/system/windhover-tune.service, then: systemctl enable --now windhover-tune\n\
         [Unit]\nDescription=Settings of the profile {name}\nAfter=network-online.target tuned.service irqbalance.service\n\
         Wants=network-online.target\n\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\nRuntimeDirectory=windhover\nRuntimeDirectoryPreserve=yes\n\
         KillMode=process\nExecStart={program} tune apply --yes {arguments}\nExecStop={program} tune undo {undo}\n\n\
         [Install]\nWantedBy=multi-user.target\n",
        name = profile.name,
        arguments = words.join(" "),
        undo = quoted(&profile.name),
    );
    let bans = settings(profile).any(|(key, reasoned)| {
        matches!(&key, Key::Service(name) if name == "irqbalance") && reasoned.setting.value == "ban-cpus"
    });
    if bans {
        text.push_str(
            "\n# Save as /etc/systemd/system/irqbalance.service.d/windhover.conf, with the CPUs to keep free in place of 1:\n\
             # [Service]\n# Environment=IRQBALANCE_BANNED_CPULIST=1\n",
        );
    }
    text
}

/// What tuned's plugin `net` calls the parts of ethtool(8).
const TUNED_PARTS: [(EthtoolPart, &str); 5] = [
    (EthtoolPart::Coalesce, "coalesce"),
    (EthtoolPart::Ring, "ring"),
    (EthtoolPart::Channels, "channels"),
    (EthtoolPart::Feature, "features"),
    (EthtoolPart::Pause, "pause"),
];

fn tuned(profile: &Profile, device: Option<&str>) -> String {
    let mut sections: Vec<(&str, Vec<String>)> =
        ["cpu", "vm", "sysctl", "sysfs", "service", "net", "bootloader"].map(|name| (name, Vec::new())).into();
    let mut put = |section: &str, line: String| {
        if let Some((_, lines)) = sections.iter_mut().find(|(name, _)| *name == section) {
            lines.push(line);
        }
    };
    let (mut left, mut of_net) = (Vec::new(), TUNED_PARTS.map(|(_, word)| (word, Vec::new())));
    for (key, reasoned) in settings(profile) {
        let value = &reasoned.setting.value;
        match &key {
            Key::Sysctl(name) => put("sysctl", format!("{name}={value}")),
            Key::Machine(setting) => match setting.row().tuned {
                Some((section, line)) => put(section, line(value)),
                None => left.push(reasoned.setting.key.clone()),
            },
            Key::Service(name) if value == "stopped" => put("service", format!("service.{name}=stop")),
            Key::Service(name) if value == "running" => put("service", format!("service.{name}=start")),
            Key::Ethtool(part, name) if value != "max" && *part != EthtoolPart::Eee => {
                let place = TUNED_PARTS.iter().position(|(known, _)| known == part);
                let words = place.and_then(|place| of_net.get_mut(place));
                words.into_iter().for_each(|(_, words)| words.push(format!("{name} {value}")));
            }
            _ => left.push(reasoned.setting.key.clone()),
        }
    }
    if of_net.iter().any(|(_, words)| !words.is_empty())
        && let Some(device) = device
    {
        put("net", format!("devices={device}"));
    }
    for (name, words) in of_net.into_iter().filter(|(_, words)| !words.is_empty()) {
        put("net", format!("{name}={}", words.join(" ")));
    }
    if !profile.boot.is_empty() {
        let words: Vec<&str> = profile.boot.iter().map(|parameter| parameter.value.as_str()).collect();
        put("bootloader", format!("cmdline_windhover={}", words.join(" ")));
    }
    let mut text = format!(
        "# windhover tune emit {name} --tuned\n\
         # Save as /etc/tuned/windhover-{name}/tuned.conf, then: tuned-adm profile windhover-{name}\n",
        name = profile.name
    );
    left_out(&mut text, &left);
    let _ = writeln!(text, "[main]\nsummary={}", profile.summary);
    for (name, lines) in sections.iter().filter(|(_, lines)| !lines.is_empty()) {
        let _ = writeln!(text, "\n[{name}]\n{}", lines.join("\n"));
    }
    text
}

fn udev(profile: &Profile, device: &str) -> String {
    let mut text = format!(
        "# windhover tune emit {} --udev --nic {device}\n\
         # Save as /etc/udev/rules.d/70-windhover-{device}.rules; it works when the device appears.\n",
        profile.name
    );
    let (actions, left) = in_words(profile, |key, value| match key {
        Key::Ethtool(_, _) if value == "max" => None,
        Key::Ethtool(part, name) => {
            let (letter, name) = match part {
                EthtoolPart::Coalesce => ("-C", name.as_str()),
                EthtoolPart::Feature => ("-K", name.as_str()),
                EthtoolPart::Pause => ("-A", name.as_str()),
                EthtoolPart::Ring => ("-G", name.as_str()),
                EthtoolPart::Channels => ("-L", name.as_str()),
                EthtoolPart::Eee => ("--set-eee", "eee"),
            };
            Some(format!("RUN+=\"/usr/sbin/ethtool {letter} {device} {name} {value}\""))
        }
        Key::Napi(name) if name == "defer-hard-irqs" => Some(format!("ATTR{{napi_defer_hard_irqs}}=\"{value}\"")),
        Key::Napi(name) if name == "gro-flush-timeout" => Some(format!("ATTR{{gro_flush_timeout}}=\"{value}\"")),
        Key::Napi(name) if name == "threaded" && value != "busy-poll" => {
            Some(format!("ATTR{{threaded}}=\"{}\"", u8::from(value == "on")))
        }
        _ => None,
    });
    for (action, reasoned) in actions {
        let _ = writeln!(text, "# {}: {}", reasoned.setting.key, reasoned.why);
        let _ = writeln!(text, "ACTION==\"add\", SUBSYSTEM==\"net\", NAME==\"{device}\", {action}");
    }
    left_out(&mut text, &left);
    text
}
