//! A read-only look at the settings of the OpenPGM article on Windows, each with what today's documents of Microsoft say of it.

use std::fmt::Write as _;

/// Whether today's Windows does what a setting says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Honoured {
    /// A current document of Microsoft describes it.
    Yes,
    /// A document of Microsoft says that later versions ignore it.
    No,
    /// Microsoft documented it for old versions only: no current document was found.
    OldOnly,
    /// No document of Microsoft was found.
    NotFound,
}

impl Honoured {
    fn words(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no, ignored",
            Self::OldOnly => "not found for current versions",
            Self::NotFound => "not found",
        }
    }
}

/// Where a setting is read.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    /// A DWORD below HKEY_LOCAL_MACHINE.
    Dword {
        key: &'static str,
        /// The value's name.
        value: &'static str,
    },
    /// The start type of a service: 2 automatic, 3 by hand, 4 disabled.
    Service(&'static str),
    /// The line of `netsh interface tcp show global` that has this text, which no language translates.
    TcpGlobal(&'static str),
    PowerPlan,
}

#[derive(Debug)]
pub struct Setting {
    pub name: &'static str,
    pub place: Place,
    /// The article's value, as [`Finding::value`] has it; empty where the article gives none.
    pub article: &'static str,
    pub effect: &'static str,
    pub honoured: Honoured,
    /// What to do instead, or to know; may be empty.
    pub advice: &'static str,
    pub source: &'static str,
}

const MULTIMEDIA: &str = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion\Multimedia\SystemProfile";
const AFD: &str = r"SYSTEM\CurrentControlSet\Services\AFD\Parameters";
const TCPIP: &str = r"SYSTEM\CurrentControlSet\Services\Tcpip\Parameters";
const ADAPTERS: &str =
    "learn.microsoft.com/windows-server/networking/technologies/network-subsystem/net-sub-performance-tuning-nics";
const FIREWALL: &str = "learn.microsoft.com/windows/security/operating-system-security/network-security/windows-firewall/\
                        configure-with-command-line";
const PLANS: &str = "learn.microsoft.com/windows/win32/power/power-policy-settings";

/// All settings, in the article's order.
pub const SETTINGS: [Setting; 9] = [
    Setting {
        name: "NetworkThrottlingIndex",
        place: Place::Dword { key: MULTIMEDIA, value: "NetworkThrottlingIndex" },
        article: "0xffffffff",
        effect: "while a multimedia program plays, other traffic is held to 10 packets a millisecond; 0xffffffff lifts that",
        honoured: Honoured::OldOnly,
        advice: "documented for Windows Vista; the current page on MMCSS does not name it",
        source: "support.microsoft.com/kb/948066; learn.microsoft.com/windows/win32/procthread/multimedia-class-scheduler-service",
    },
    Setting {
        name: "FastSendDatagramThreshold",
        place: Place::Dword { key: AFD, value: "FastSendDatagramThreshold" },
        article: "1500",
        effect: "as the article has it: longer datagrams (1024 bytes by default) take a slow path with locks and a second buffer",
        honoured: Honoured::NotFound,
        advice: "measure both: messages of 1024 and of 1025 bytes show whether there is a step",
        source: "",
    },
    Setting {
        name: "FastCopyReceiveThreshold",
        place: Place::Dword { key: AFD, value: "FastCopyReceiveThreshold" },
        article: "1500",
        effect: "the same for what is received",
        honoured: Honoured::NotFound,
        advice: "",
        source: "",
    },
    Setting {
        name: "TCP time stamps",
        place: Place::TcpGlobal("1323"),
        article: "disabled",
        effect: "12 bytes in each TCP segment and their handling; nothing of UDP",
        honoured: Honoured::Yes,
        advice: "both ends have to ask for them, so one end without them is enough",
        source: "learn.microsoft.com/powershell/module/nettcpip/set-nettcpsetting (-Timestamps)",
    },
    Setting {
        name: "Base Filtering Engine",
        place: Place::Service("BFE"),
        article: "disabled",
        effect: "manages the filters of firewall and IPsec",
        honoured: Honoured::NotFound,
        advice: "Windows Firewall depends on it: see there",
        source: "",
    },
    Setting {
        name: "Windows Firewall",
        place: Place::Service("MpsSvc"),
        article: "disabled",
        effect: "filters each packet",
        honoured: Honoured::Yes,
        advice: "Microsoft does not support stopping the service: switch its profiles off instead, or let the program pass",
        source: FIREWALL,
    },
    Setting {
        name: "DefaultReceiveWindow",
        place: Place::Dword { key: AFD, value: "DefaultReceiveWindow" },
        article: "",
        effect: "default receive buffer of sockets; the article multiplies it by a value (0x400) whose name it leaves out",
        honoured: Honoured::NotFound,
        advice: "programs set the buffers of their sockets themselves (SO_RCVBUF)",
        source: "",
    },
    Setting {
        name: "TcpWindowSize",
        place: Place::Dword { key: TCPIP, value: "TcpWindowSize" },
        article: "",
        effect: "the receive window of TCP up to Windows Server 2003",
        honoured: Honoured::No,
        advice: "the window tunes itself: netsh interface tcp show global shows the level",
        source: ADAPTERS,
    },
    Setting {
        name: "power plan",
        place: Place::PowerPlan,
        article: "",
        effect: "clock rate and idle states of the CPUs",
        honoured: Honoured::Yes,
        advice: "for latencies in microseconds: High performance (8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c)",
        source: PLANS,
    },
];

/// What a system is read with. No function changes anything.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    /// A DWORD of a key and a value below HKEY_LOCAL_MACHINE; absent where it is not there.
    pub dword: fn(&str, &str) -> Option<u32>,
    /// GUID of the active power plan, in lower case.
    pub power_scheme: fn() -> Option<String>,
    /// What `netsh interface tcp show global` prints.
    pub tcp_global: fn() -> Option<String>,
}

/// A setting as it was found.
#[derive(Debug)]
pub struct Finding {
    pub setting: &'static Setting,
    /// What is there, for people; absent: nothing, or it could not be read.
    pub value: Option<String>,
}

pub fn examine(reader: &Reader) -> Vec<Finding> {
    let value = |setting: &Setting| match setting.place {
        Place::Dword { key, value } => {
            let number = (reader.dword)(key, value)?;
            Some(if setting.article.starts_with("0x") { format!("{number:#x}") } else { number.to_string() })
        }
        Place::Service(name) => {
            let start = (reader.dword)(&format!(r"SYSTEM\CurrentControlSet\Services\{name}"), "Start")?;
            Some(match start {
                2 => "automatic".to_owned(),
                3 => "started by hand".to_owned(),
                4 => "disabled".to_owned(),
                other => format!("start type {other}"),
            })
        }
        Place::TcpGlobal(mark) => value_of(&(reader.tcp_global)()?, mark),
        Place::PowerPlan => Some(plan((reader.power_scheme)()?)),
    };
    SETTINGS.iter().map(|setting| Finding { setting, value: value(setting) }).collect()
}

/// What stands behind the colon of the line with a mark.
fn value_of(text: &str, mark: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains(mark))?;
    let value: String =
        line.rsplit_once(':')?.1.trim().chars().filter(|letter| !letter.is_control()).take(40).collect();
    (!value.is_empty()).then_some(value)
}

/// A power plan with its name, where it is one of Microsoft's.
fn plan(guid: String) -> String {
    let known = [
        ("8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c", "High performance"),
        ("381b4222-f694-41f0-9685-ff5bb260df2e", "Balanced"),
        ("a1841308-3541-4fab-bc81-f71556f20b4a", "Power saver"),
    ];
    known.iter().find(|(id, _)| *id == guid).map_or(guid, |(_, name)| (*name).to_owned())
}

pub fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let setting = finding.setting;
        let value = finding.value.as_deref().unwrap_or("not set, or not readable");
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}: {value}", setting.name);
        let mut line = |what: &str, words: &str| {
            if !words.is_empty() {
                let _ = writeln!(text, "  {what:<9} {words}");
            }
        };
        line("article", setting.article);
        line("effect", setting.effect);
        line("honoured", setting.honoured.words());
        line("advice", setting.advice);
        line("source", if setting.source.is_empty() { "no document of Microsoft was found" } else { setting.source });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TUNED: Reader = Reader {
        dword: |key, value| match (key.rsplit('\\').next()?, value) {
            ("SystemProfile", "NetworkThrottlingIndex") => Some(u32::MAX),
            ("Parameters", "FastSendDatagramThreshold" | "FastCopyReceiveThreshold") => Some(1500),
            ("BFE" | "MpsSvc", "Start") => Some(4),
            _ => None,
        },
        power_scheme: || Some("8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c".to_owned()),
        tcp_global: || {
            Some(
                "TCP Global Parameters\r\n-----\r\nECN Capability : disabled\r\nRFC 1323 Timestamps : disabled\r\n"
                    .to_owned(),
            )
        },
    };
    const PLAIN: Reader = Reader {
        dword: |_, value| match value {
            "NetworkThrottlingIndex" => Some(10),
            "Start" => Some(2),
            _ => None,
        },
        power_scheme: || Some("381b4222-f694-41f0-9685-ff5bb260df2e".to_owned()),
        tcp_global: || Some("RFC 1323-Zeitstempel : allowed\n".to_owned()),
    };
    const NOTHING: Reader = Reader { dword: |_, _| None, power_scheme: || None, tcp_global: || None };

    /// Whether it is as the article has it; absent where the article gives no value.
    fn as_in_article(finding: &Finding) -> Option<bool> {
        (!finding.setting.article.is_empty()).then(|| finding.value.as_deref() == Some(finding.setting.article))
    }

    fn value<'a>(findings: &'a [Finding], name: &str) -> Option<&'a str> {
        findings.iter().find(|finding| finding.setting.name == name).unwrap().value.as_deref()
    }

    #[test]
    fn a_host_that_is_set_up_as_in_the_article_is_known() {
        // A path or a form of a value that is not what Windows has.
        let findings = examine(&TUNED);
        assert!(findings.iter().all(|finding| as_in_article(finding) != Some(false)), "{findings:#?}");
        assert_eq!(findings.iter().filter(|finding| as_in_article(finding) == Some(true)).count(), 6);
        assert_eq!(value(&findings, "power plan"), Some("High performance"));
    }

    #[test]
    fn defaults_are_told_as_they_are() {
        let findings = examine(&PLAIN);
        assert_eq!(value(&findings, "NetworkThrottlingIndex"), Some("0xa"));
        assert_eq!(value(&findings, "Windows Firewall"), Some("automatic"));
        assert_eq!(value(&findings, "TCP time stamps"), Some("allowed"), "in any language");
        assert_eq!(value(&findings, "power plan"), Some("Balanced"));
        assert!(findings.iter().all(|finding| as_in_article(finding) != Some(true)));
    }

    #[test]
    fn what_cannot_be_read_is_no_value() {
        // An absent value that is taken for 0, or garbage of netsh that is printed.
        let findings = examine(&NOTHING);
        assert!(findings.iter().all(|finding| finding.value.is_none()));
        assert!(text(&findings).contains("not set, or not readable"));
        for garbage in ["", "1323", "1323:", "1323:\u{1b}\u{7}", "\n\n"] {
            assert_eq!(value_of(garbage, "1323"), None, "{garbage:?}");
        }
        assert_eq!(value_of("1323: a\u{1b}[31m", "1323").as_deref(), Some("a[31m"));
    }

    #[test]
    fn each_setting_says_where_its_judgement_is_from() {
        for setting in &SETTINGS {
            let found = setting.honoured != Honoured::NotFound;
            assert_eq!(found, !setting.source.is_empty(), "{}", setting.name);
            assert_eq!(found, setting.source.contains("microsoft.com/"), "{}", setting.name);
        }
    }
}
