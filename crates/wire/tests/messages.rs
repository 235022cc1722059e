//! Every message reads back as it was written, fields of later versions are ignored, and no bytes make a reader panic.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly")]

#[path = "../../../fuzz/src/wire_entries.rs"]
#[allow(unreachable_pub, dead_code, reason = "a part of the fuzz package")]
mod exercise;

use model::usage::{Carried, Preload};
use model::worker::{EndpointTask, LINE_MARK, ProbeTask, Target};
use model::{
    Counters, EndSpec, EndUsage, Finding, FindingId, HostFacts, Limits, LoadProfile, LoadReport, LoadSpec,
    MachineFacts, Policy, Probe, ProbeSpec, Protocol, Receive, SocketSpec, Stamps, TickRate,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
extern crate windhover_wire as wire;
use wire::control::{ClientMessage, Proof, ServerMessage};
use wire::frame::AGENT_LIMIT;
use wire::{
    Decoder, LaunchSpec, Nonce, OpenRequest, Opened, PaceRequest, RefuseCode, Reply, Request, ServerHello, StopReport,
    Token, Versions,
};

fn protocols() -> impl Strategy<Value = Protocol> {
    proptest::sample::select(Protocol::ALL.to_vec())
}

fn ends() -> impl Strategy<Value = EndSpec> {
    let policies = vec![Policy::Other, Policy::Batch, Policy::Idle, Policy::Fifo(1), Policy::Rr(99)];
    let receives = proptest::sample::select(Receive::ALL.to_vec());
    (
        receives,
        proptest::sample::select(policies),
        any::<Option<u32>>(),
        any::<Option<std::net::IpAddr>>(),
        any::<Option<String>>(),
    )
        .prop_map(|(receive, policy, cpu, bind, device)| EndSpec {
            receive,
            policy,
            cpu,
            bind,
            preload: device.clone(),
            stack: device.clone(),
            device,
            ..EndSpec::default()
        })
}

prop_compose! {
    fn opens()(
        protocol in protocols(), end in ends(), pings: u32, pongs: u32, max_size: u32, connect_each: bool, ttl: Option<u8>,
    ) -> OpenRequest {
        let socket = SocketSpec { ttl, ..SocketSpec::new(protocol) };
        let pace = ttl.map(|every| PaceRequest { rate_pps: pings, every: u32::from(every), stamps: Stamps::Kernel, ..PaceRequest::default() });
        OpenRequest { probe: Probe::Rr, socket, end, pings, pongs, max_size, connect_each, stream: None, pace, cycle: None }
    }
}

fn client_messages() -> impl Strategy<Value = ClientMessage> {
    prop_oneof![
        (any::<u32>(), any::<String>(), any::<[u8; 32]>(), any::<Option<[u8; 32]>>()).prop_map(
            |(version, tool_version, nonce, proof)| ClientMessage::ClientHello {
                version,
                tool_version,
                nonce: Nonce(nonce),
                proof: proof.map(Proof),
            }
        ),
        opens().prop_map(|open| ClientMessage::Open(Box::new(open))),
        (any::<u32>(), any::<u32>(), any::<bool>()).prop_map(|(size, response_size, explain)| ClientMessage::Start {
            size,
            response_size,
            explain
        }),
        Just(ClientMessage::Stop),
        Just(ClientMessage::Close),
    ]
}

prop_compose! {
    fn reports()(elapsed_ns: u64, cpu: Option<u32>, received: u64, detail: String, name: String) -> StopReport {
        StopReport {
            usage: EndUsage { elapsed_ns, cpu, ..EndUsage::default() },
            counters: Counters { qdisc_drops: received, ..Counters::default() },
            received,
            notes: vec![Finding::at(FindingId::NotPermitted, "reflector", detail)],
            stack_environment: BTreeMap::from([(name.clone(), name.clone())]),
            carried: cpu.map(|sockets| vec![Carried { by: name.clone(), reason: Some(name.clone()), sockets }]),
            preloads: vec![Preload { library: name, loaded: cpu.is_some() }],
            clock_read_ns: Some(12.5),
            ticks: Some(TickRate { mult: elapsed_ns, shift: 32 }),
            ..StopReport::default()
        }
    }
}

fn server_messages() -> impl Strategy<Value = ServerMessage> {
    let codes = vec![RefuseCode::WrongKey, RefuseCode::Busy, RefuseCode::TimedOut, RefuseCode::Other];
    prop_oneof![
        (any::<[u8; 32]>(), any::<bool>(), any::<Option<String>>(), any::<Vec<String>>()).prop_map(
            |(nonce, key_required, build, capabilities)| ServerMessage::ServerHello(Box::new(ServerHello {
                versions: Versions::OURS,
                tool_version: "1".to_owned(),
                build,
                capabilities,
                limits: Limits::default(),
                nonce: Nonce(nonce),
                key_required,
            }))
        ),
        (any::<Option<[u8; 32]>>(), any::<u64>())
            .prop_map(|(proof, session)| ServerMessage::Welcome { proof: proof.map(Proof), session }),
        (proptest::sample::select(codes), any::<String>())
            .prop_map(|(code, reason)| ServerMessage::Refused { code, reason }),
        (any::<u16>(), any::<Option<std::net::IpAddr>>(), any::<[u8; 16]>()).prop_map(|(port, address, token)| {
            ServerMessage::Opened(Opened {
                port,
                address,
                token: Token(token),
                machine: None,
                ports: Vec::new(),
                source: None,
            })
        }),
        any::<Option<std::net::Ipv4Addr>>()
            .prop_map(|ip| ServerMessage::Proved { address: ip.map(|ip| (ip, 9).into()) }),
        Just(ServerMessage::Started),
        reports().prop_map(|report| ServerMessage::Stopped(Box::new(report))),
    ]
}

fn launches() -> impl Strategy<Value = LaunchSpec> {
    (any::<Vec<String>>(), any::<BTreeMap<String, String>>(), any::<Option<String>>())
        .prop_map(|(prefix, environment, netns)| LaunchSpec { prefix, environment, netns: netns.map(Into::into) })
}

fn requests() -> impl Strategy<Value = Request> {
    let task = |bind: String, key: Option<String>| EndpointTask { bind, key, limits: Limits::default() };
    prop_oneof![
        (any::<String>(), any::<u32>()).prop_map(|(build, protocol)| Request::Hello { build, protocol }),
        Just(Request::Facts),
        (any::<String>(), any::<Option<String>>(), launches())
            .prop_map(move |(bind, key, launch)| Request::StartEndpoint { task: task(bind, key), launch }),
        any::<u32>().prop_map(|id| Request::StopEndpoint { id }),
        (any::<String>(), protocols(), launches()).prop_map(|(control, protocol, launch)| Request::RunProbe {
            task: Box::new(ProbeTask {
                factors: BTreeMap::from([("size".to_owned(), 32.into())]),
                ..ProbeTask::new(ProbeSpec::new(Probe::Pingpong, protocol), Target { control, key: None, host: None })
            }),
            launch,
        }),
        any::<u32>().prop_map(|timeout_ms| Request::StartLoad { spec: LoadSpec::new(LoadProfile::Build), timeout_ms }),
        any::<u32>().prop_map(|id| Request::StopLoad { id }),
        Just(Request::Cancel),
        Just(Request::Bye),
    ]
}

fn load_report(work: u64) -> LoadReport {
    LoadReport {
        spec: LoadSpec::new(LoadProfile::Cpu),
        work,
        busy_percent: 50.5,
        work_cv: Some(0.25),
        steady_after_ns: 1,
        steady: true,
        elapsed_ns: 2,
    }
}

fn replies() -> impl Strategy<Value = Reply> {
    prop_oneof![
        (any::<String>(), any::<u32>()).prop_map(|(text, number)| Reply::Hello {
            build: text.clone(),
            protocol: number,
            boot_id: text.clone(),
            hostname: text,
            uid: number,
            pid: number,
        }),
        any::<Option<String>>().prop_map(|os| Reply::Facts {
            machine: Box::new(MachineFacts { os, ..MachineFacts::default() }),
            host: Box::new(HostFacts::default()),
        }),
        (any::<u32>(), any::<String>()).prop_map(|(id, address)| Reply::EndpointReady { id, address }),
        any::<u32>().prop_map(|id| Reply::EndpointStopped { id }),
        Just(Reply::Done),
        (any::<u32>(), any::<bool>(), any::<u64>()).prop_map(|(id, steady, steady_after_ns)| Reply::LoadSteady {
            id,
            steady,
            steady_after_ns
        }),
        (any::<u32>(), any::<u64>())
            .prop_map(|(id, work)| Reply::LoadReport { id, report: Box::new(load_report(work)) }),
        (any::<u8>(), any::<String>()).prop_map(|(code, message)| Reply::Failed { code, message }),
        Just(Reply::Bye),
    ]
}

fn payload(frame: &[u8]) -> Vec<u8> {
    let mut decoder = Decoder::new(AGENT_LIMIT);
    decoder.feed(frame);
    decoder.pop().unwrap().unwrap()
}

proptest! {
    #[test]
    fn requests_of_the_control_connection(message in client_messages()) {
        let json = serde_json::to_vec(&message).unwrap();
        prop_assert_eq!(serde_json::from_slice::<ClientMessage>(&json).unwrap(), message);
    }

    #[test]
    fn answers_of_the_control_connection(message in server_messages()) {
        let json = serde_json::to_vec(&message).unwrap();
        prop_assert_eq!(serde_json::from_slice::<ServerMessage>(&json).unwrap(), message);
    }

    #[test]
    fn requests_to_an_agent(request in requests()) {
        prop_assert_eq!(Request::from_payload(&payload(&request.to_frame().unwrap())).unwrap(), request);
    }

    #[test]
    fn replies_of_an_agent(reply in replies()) {
        prop_assert_eq!(Reply::from_payload(&payload(&reply.to_frame().unwrap())).unwrap(), reply);
    }

    #[test]
    fn any_open_is_allowed_or_refused(open in opens()) {
        let _ = open.check(&Limits::default());
    }

    #[test]
    fn no_bytes_make_a_session_panic(bytes: Vec<u8>) {
        exercise::control_server(&bytes);
        exercise::control_client(&bytes);
        exercise::agent_reply(&bytes);
        exercise::key_file(&bytes);
    }

    #[test]
    fn no_order_of_messages_makes_a_session_panic(
        theirs in proptest::collection::vec(client_messages(), 0..6),
        ours in proptest::collection::vec(server_messages(), 0..6),
    ) {
        let frames = |payloads: Vec<Vec<u8>>| -> Vec<u8> {
            payloads.iter().flat_map(|payload| wire::frame::encode(payload, 1 << 20).unwrap()).collect()
        };
        let stream = frames(theirs.iter().map(|message| serde_json::to_vec(message).unwrap()).collect());
        exercise::control_server(&stream);
        let stream = frames(ours.iter().map(|message| serde_json::to_vec(message).unwrap()).collect());
        exercise::control_client(&stream);
    }
}

/// The largest reply: a measured size, with a full result document.
#[test]
fn a_measured_size_travels_whole() {
    let result = serde_json::json!({
        "format": 1, "probe": "pingpong", "later_field": [1, 2],
    });
    // What a later version would send reads as an error of the payload, not as a panic, when it lacks what we need.
    let event = serde_json::json!({ "event": "measured", "result": result });
    let line = format!("{LINE_MARK}{event}");
    let frame = wire::agent::forward(line.as_bytes()).unwrap();
    let Reply::Unreadable(why) = Reply::from_payload(&frame[wire::frame::PREFIX_BYTES..]).unwrap() else { panic!() };
    assert!(why.contains("missing field"), "{why}");
    // Without the mark it is no reply either.
    assert!(Reply::from_payload(event.to_string().as_bytes()).is_err());
}

#[test]
fn fields_of_later_versions_are_ignored() {
    let text = r#"{"type":"start","size":1,"response_size":2,"later":{"a":[]}}"#;
    let message: ClientMessage = serde_json::from_str(text).unwrap();
    assert_eq!(message, ClientMessage::Start { size: 1, response_size: 2, explain: false });
    let text = r#"{"type":"refused","code":"a-code-of-tomorrow","reason":"r"}"#;
    let message: ServerMessage = serde_json::from_str(text).unwrap();
    assert_eq!(message, ServerMessage::Refused { code: RefuseCode::Other, reason: "r".to_owned() });
    let text = r#"{"type":"stopped","usage":{"tomorrow":1},"counters":{},"received":3}"#;
    let ServerMessage::Stopped(report) = serde_json::from_str(text).unwrap() else { panic!() };
    assert_eq!(report.received, 3);
}

#[test]
fn the_words_on_the_wire_stay_the_same() {
    let json = serde_json::to_string(&ClientMessage::Start { size: 1, response_size: 2, explain: false }).unwrap();
    assert_eq!(json, r#"{"type":"start","size":1,"response_size":2}"#);
    let json =
        serde_json::to_string(&ServerMessage::Refused { code: RefuseCode::WrongKey, reason: "r".into() }).unwrap();
    assert_eq!(json, r#"{"type":"refused","code":"wrong-key","reason":"r"}"#);
    let json = serde_json::to_string(&ServerMessage::Opened(Opened {
        port: 1,
        address: None,
        token: Token([255; 16]),
        machine: None,
        ports: Vec::new(),
        source: None,
    }))
    .unwrap();
    assert_eq!(json, format!(r#"{{"type":"opened","port":1,"token":"{}"}}"#, "f".repeat(32)));
}

#[test]
fn another_build_is_named_with_its_host() {
    assert!(wire::agent::check_build("b", "abc", "abc", wire::agent::PROTOCOL).is_ok());
    for (build, protocol) in [("xyz", wire::agent::PROTOCOL), ("abc", 99)] {
        let error = wire::agent::check_build("b", "abc", build, protocol).unwrap_err().to_string();
        assert!(error.starts_with("the agent on host b is another build"), "{error}");
        assert!(error.ends_with("copy this windhover there"), "{error}");
    }
}
