//! Both machines against each other: keyed and unkeyed sessions, wrong keys and versions, and frames that were tampered with.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail loudly")]

use model::{Limits, Policy, Probe, Protocol, Receive};
use windhover_wire as wire;
use wire::control::{ClientMessage, Proof, ServerMessage};
use wire::{
    ClientConfig, ClientEvent, ClientSession, FrameError, Key, Nonce, OpenRequest, Opened, PaceRequest, RefuseCode,
    ServerConfig, ServerEvent, ServerSession, SessionError, StopReport, Token, Versions,
};

fn server(key: Option<Key>) -> ServerSession {
    server_with(key, Versions::OURS, Limits::default())
}

fn server_with(key: Option<Key>, versions: Versions, limits: Limits) -> ServerSession {
    ServerSession::new(ServerConfig {
        versions,
        tool_version: "0.1.0".to_owned(),
        build: Some("abc".to_owned()),
        capabilities: ["tcp", "udp", "pace"].map(str::to_owned).to_vec(),
        limits,
        key,
        nonce: Nonce([5; 32]),
        session: 42,
    })
    .unwrap()
}

fn client(key: Option<Key>) -> ClientSession {
    ClientSession::new(ClientConfig::new(key, [6; 32]))
}

fn key(byte: u8) -> Key {
    Key::from_bytes([byte; 32])
}

fn request() -> OpenRequest {
    OpenRequest::new(Probe::Pingpong, Protocol::Udp, 1024)
}

fn to_client(server: &mut ServerSession, client: &mut ClientSession) -> Result<(), SessionError> {
    while let Some(bytes) = server.poll_transmit() {
        for byte in bytes {
            client.handle_bytes(&[byte])?;
        }
    }
    Ok(())
}

fn to_server(client: &mut ClientSession, server: &mut ServerSession) -> Result<(), SessionError> {
    while let Some(bytes) = client.poll_transmit() {
        server.handle_bytes(&bytes)?;
    }
    Ok(())
}

fn shake(client: &mut ClientSession, server: &mut ServerSession) -> Result<(), SessionError> {
    to_client(server, client)?;
    to_server(client, server)?;
    to_client(server, client)
}

/// Both ends after the handshake, with their first events taken.
fn ready(key: Option<Key>) -> (ClientSession, ServerSession) {
    let (mut client, mut server) = (client(key.clone()), server(key));
    shake(&mut client, &mut server).unwrap();
    assert!(matches!(server.poll_event(), Some(ServerEvent::Accepted { .. })));
    let Some(ClientEvent::Ready { hello, session: 42 }) = client.poll_event() else { panic!("no ready") };
    assert_eq!(hello.build.as_deref(), Some("abc"));
    (client, server)
}

#[test]
fn a_whole_session_keyed_and_unkeyed() {
    for key in [None, Some(key(1))] {
        let (mut client, mut server) = ready(key);
        client.open(request()).unwrap();
        to_server(&mut client, &mut server).unwrap();
        let Some(ServerEvent::Open(open)) = server.poll_event() else { panic!("no open") };
        assert_eq!(*open, request());
        let opened =
            Opened { port: 7, address: None, token: Token([3; 16]), machine: None, ports: Vec::new(), source: None };
        server.opened(opened.clone()).unwrap();
        server.proved(Some("127.0.0.1:9".parse().unwrap())).unwrap();
        to_client(&mut server, &mut client).unwrap();
        assert_eq!(client.poll_event(), Some(ClientEvent::Opened(opened)));
        assert!(matches!(client.poll_event(), Some(ClientEvent::Proved { address: Some(_) })));
        for size in [1, 32, 1024] {
            client.start(size, size).unwrap();
            to_server(&mut client, &mut server).unwrap();
            assert_eq!(server.poll_event(), Some(ServerEvent::Start { size, response_size: size, explain: false }));
            server.started().unwrap();
            to_client(&mut server, &mut client).unwrap();
            assert_eq!(client.poll_event(), Some(ClientEvent::Started));
            client.stop().unwrap();
            to_server(&mut client, &mut server).unwrap();
            assert_eq!(server.poll_event(), Some(ServerEvent::Stop));
            let report = StopReport { received: 10, sent: 9, ..StopReport::default() };
            server.stopped(report.clone()).unwrap();
            to_client(&mut server, &mut client).unwrap();
            assert_eq!(client.poll_event(), Some(ClientEvent::Stopped(Box::new(report))));
        }
        client.close().unwrap();
        to_server(&mut client, &mut server).unwrap();
        assert_eq!(server.poll_event(), Some(ServerEvent::Closed));
        assert_eq!(server.handle_end(), Ok(()));
        assert_eq!(client.handle_end(), Ok(()));
    }
}

#[test]
fn a_wrong_key_is_refused_by_both_sides() {
    let (mut client, mut server) = (client(Some(key(1))), server(Some(key(2))));
    to_client(&mut server, &mut client).unwrap();
    assert_eq!(to_server(&mut client, &mut server), Err(SessionError::WrongKey));
    assert_eq!(server.poll_event(), None);
    // The reflector's refusal tells the client the same.
    let error = to_client(&mut server, &mut client).unwrap_err();
    assert_eq!(error.to_string(), "wrong key: both ends need the same --key-file");
    assert_eq!(client.poll_event(), None);
}

/// Somebody who has no key plays the reflector and says welcome to everybody.
#[test]
fn a_client_believes_no_reflector_without_proof() {
    for proof in [None, Some(Proof([0; 32]))] {
        let mut genuine = server(Some(key(2)));
        let mut client = client(Some(key(1)));
        client.handle_bytes(&genuine.poll_transmit().unwrap()).unwrap();
        let welcome = serde_json::to_vec(&ServerMessage::Welcome { proof, session: 42 }).unwrap();
        let frame = wire::frame::encode(&welcome, 4096).unwrap();
        assert_eq!(client.handle_bytes(&frame), Err(SessionError::WrongKey));
        assert!(client.is_done());
    }
}

/// A client's own proof, sent back to it, proves nothing.
#[test]
fn a_proof_cannot_be_reflected() {
    let mut genuine = server(Some(key(1)));
    let mut client = client(Some(key(1)));
    client.handle_bytes(&genuine.poll_transmit().unwrap()).unwrap();
    let answer = client.poll_transmit().unwrap();
    let ClientMessage::ClientHello { proof, .. } = serde_json::from_slice(&answer[4..]).unwrap() else { panic!() };
    let welcome = serde_json::to_vec(&ServerMessage::Welcome { proof, session: 42 }).unwrap();
    let frame = wire::frame::encode(&welcome, 4096).unwrap();
    assert_eq!(client.handle_bytes(&frame), Err(SessionError::WrongKey));
}

/// A hello that was changed on the way (here: limits) makes the proofs differ.
#[test]
fn an_altered_hello_is_noticed() {
    let (mut client, mut server) = (client(Some(key(1))), server(Some(key(1))));
    let frame = server.poll_transmit().unwrap();
    let text = String::from_utf8(frame[4..].to_vec()).unwrap().replace("\"max_sessions\":16", "\"max_sessions\":99");
    assert!(text.contains(":99"));
    client.handle_bytes(&wire::frame::encode(text.as_bytes(), 1 << 20).unwrap()).unwrap();
    assert_eq!(to_server(&mut client, &mut server), Err(SessionError::WrongKey));
}

#[test]
fn a_key_at_one_end_only_is_told_apart_from_a_wrong_one() {
    let (mut open_client, mut keyed_server) = (client(None), server(Some(key(1))));
    assert_eq!(shake(&mut open_client, &mut keyed_server), Err(SessionError::KeyRequired));
    let (mut keyed_client, mut open_server) = (client(Some(key(1))), server(None));
    assert_eq!(shake(&mut keyed_client, &mut open_server), Err(SessionError::KeyNotExpected));
    // A client that leaves its proof out by force is refused too.
    let hello =
        ClientMessage::ClientHello { version: 1, tool_version: String::new(), nonce: Nonce([0; 32]), proof: None };
    let frame = wire::frame::encode(&serde_json::to_vec(&hello).unwrap(), 4096).unwrap();
    let mut keyed_server = server(Some(key(1)));
    assert_eq!(keyed_server.handle_bytes(&frame), Err(SessionError::KeyRequired));
    assert!(!keyed_server.is_accepted() || keyed_server.is_done());
}

#[test]
fn another_version_is_named_at_both_ends() {
    let mut newer = server_with(None, Versions { min: 7, max: 9 }, Limits::default());
    let error = shake(&mut client(None), &mut newer).unwrap_err().to_string();
    assert!(error.contains("the reflector speaks version 7 to 9, this windhover speaks 1"), "{error}");
    let mut config = ClientConfig::new(None, [6; 32]);
    config.versions = Versions { min: 1, max: 5 };
    let mut client = ClientSession::new(config);
    let mut wide = server_with(None, Versions { min: 1, max: 3 }, Limits::default());
    assert_eq!(shake(&mut client, &mut wide), Ok(()));
}

/// Frames of a keyed session that were altered, repeated, swapped, dropped or sent back.
#[test]
fn tampered_frames_are_refused() {
    let unauthentic = |result: Result<(), SessionError>| {
        assert!(matches!(result, Err(SessionError::Frame(FrameError::Unauthentic { .. }))), "{result:?}");
    };
    let open_frame = || {
        let (mut client, server) = ready(Some(key(1)));
        client.open(request()).unwrap();
        (client.poll_transmit().unwrap(), client, server)
    };
    for at in 4.. {
        let (mut frame, _, mut server) = open_frame();
        let Some(byte) = frame.get_mut(at) else { break };
        *byte ^= 1;
        unauthentic(server.handle_bytes(&frame));
        assert_eq!(server.poll_event(), None);
    }
    let (frame, _, mut server) = open_frame();
    server.handle_bytes(&frame).unwrap();
    unauthentic(server.handle_bytes(&frame));
    // A frame that never came makes the next one fail.
    let (_, mut client, mut server) = open_frame();
    client.close().unwrap();
    unauthentic(server.handle_bytes(&client.poll_transmit().unwrap()));
    // A frame sent back to its sender.
    let (frame, mut client, _) = open_frame();
    unauthentic(client.handle_bytes(&frame));
    // The same frame in another session with the same key.
    let (frame, ..) = open_frame();
    let (mut client, mut server) = {
        let mut config = ClientConfig::new(Some(key(1)), [9; 32]);
        config.tool_version = "x".to_owned();
        (ClientSession::new(config), self::server(Some(key(1))))
    };
    shake(&mut client, &mut server).unwrap();
    unauthentic(server.handle_bytes(&frame));
    // Without any MAC.
    let (_, _, mut server) = open_frame();
    let bare = wire::frame::encode(&serde_json::to_vec(&ClientMessage::Close).unwrap(), 4096).unwrap();
    server.handle_bytes(&bare).unwrap();
    assert_eq!(server.poll_event(), None);
    unauthentic(server.handle_bytes(&bare));
}

#[test]
fn messages_out_of_order_end_the_session() {
    let frame = |message: &ClientMessage| wire::frame::encode(&serde_json::to_vec(message).unwrap(), 4096).unwrap();
    let open = ClientMessage::Open(Box::new(request()));
    for message in [&open, &ClientMessage::Stop, &ClientMessage::Close] {
        let mut server = server(None);
        let error = server.handle_bytes(&frame(message)).unwrap_err();
        assert!(matches!(error, SessionError::OutOfOrder { .. }), "{error}");
    }
    let (_, mut server) = ready(None);
    let both = [frame(&open), frame(&open)].concat();
    assert!(matches!(server.handle_bytes(&both), Err(SessionError::OutOfOrder { message: "open", .. })));
    let (mut client, mut server) = ready(None);
    server.refuse(RefuseCode::Failed, "no\nmemory");
    let error = to_client(&mut server, &mut client).unwrap_err().to_string();
    assert_eq!(error, "the reflector refuses: no memory");
    let (mut client, _) = ready(None);
    assert!(matches!(client.start(1, 1), Err(SessionError::Misuse { .. })));
    assert!(matches!(client.handle_end(), Err(SessionError::Closed { .. })));
}

#[test]
fn limits_hold_at_both_ends() {
    let limits = Limits {
        max_size: 100,
        allow_real_time: false,
        allow_cpu: false,
        allow_spin: false,
        max_idle_descriptors: 3,
        max_buffer_bytes: 1000,
        max_rate_pps: 1000,
        ..Limits::default()
    };
    let pace = |open: &mut OpenRequest, asked: PaceRequest| {
        open.probe = Probe::Pace;
        open.pace = Some(asked);
    };
    let change = |f: &dyn Fn(&mut OpenRequest)| {
        let mut open = OpenRequest { max_size: 100, ..request() };
        f(&mut open);
        open
    };
    let too_much = [
        change(&|open| open.max_size = 101),
        change(&|open| open.end.policy = Policy::Fifo(1)),
        change(&|open| open.end.cpu = Some(0)),
        change(&|open| open.end.receive = Receive::Spin),
        change(&|open| open.end.idle.udp = 4),
        change(&|open| open.end.send_buffer_bytes = Some(1001)),
        change(&|open| open.pings = 0),
        change(&|open| open.pongs = 1001),
        change(&|open| open.connect_each = true),
        change(&|open| {
            open.socket.protocol = Protocol::Tcp;
            open.connect_each = true;
            open.end.receive = Receive::Epoll;
        }),
        change(&|open| {
            open.socket.more = true;
            open.pongs = 2;
        }),
        change(&|open| open.socket.protocol = Protocol::Icmp),
        change(&|open| open.end.device = Some("../../etc".to_owned())),
        change(&|open| open.probe = Probe::Pace),
        change(&|open| open.pace = Some(PaceRequest::default())),
        change(&|open| pace(open, PaceRequest { rate_pps: 1001, ..PaceRequest::default() })),
        change(&|open| pace(open, PaceRequest { rate_pps: 0, ..PaceRequest::default() })),
        change(&|open| pace(open, PaceRequest { every: 0, ..PaceRequest::default() })),
        change(&|open| pace(open, PaceRequest { port: Some(7), ..PaceRequest::default() })),
        change(&|open| {
            pace(open, PaceRequest::default());
            open.pongs = 2;
        }),
    ];
    for open in too_much {
        let mut server = server_with(None, Versions::OURS, limits.clone());
        let mut client = client(None);
        shake(&mut client, &mut server).unwrap();
        assert!(matches!(client.open(open.clone()), Err(SessionError::Refused { .. })), "{open:?}");
        // And a client that does not look at the limits.
        let message = serde_json::to_vec(&ClientMessage::Open(Box::new(open.clone()))).unwrap();
        let result = server.handle_bytes(&wire::frame::encode(&message, 4096).unwrap());
        assert!(matches!(result, Err(SessionError::Refused { .. })), "{open:?}");
    }
    let (mut client, mut server) = (client(None), server_with(None, Versions::OURS, limits));
    shake(&mut client, &mut server).unwrap();
    client.open(change(&|_| ())).unwrap();
    to_server(&mut client, &mut server).unwrap();
    server
        .opened(Opened {
            port: 1,
            address: None,
            token: Token([0; 16]),
            machine: None,
            ports: Vec::new(),
            source: None,
        })
        .unwrap();
    server.proved(None).unwrap();
    to_client(&mut server, &mut client).unwrap();
    refused_by_both(&mut client, &mut server, (32, 101), "size 101");
}

/// Sizes that the client does not ask for, and the server does not take of a client that asks all the same.
fn refused_by_both(
    client: &mut ClientSession,
    server: &mut ServerSession,
    (size, response_size): (u32, u32),
    why: &str,
) {
    let error = client.start(size, response_size).unwrap_err().to_string();
    assert!(error.contains(why), "{size} {response_size}: {error}");
    let message = serde_json::to_vec(&ClientMessage::Start { size, response_size, explain: false }).unwrap();
    let error = server.handle_bytes(&wire::frame::encode(&message, 4096).unwrap()).unwrap_err().to_string();
    assert!(error.contains(why), "{size} {response_size}: {error}");
}

/// A datagram's source is whatever its sender wrote, so what has no room for the tag gets no more than it brought.
#[test]
fn only_what_carries_the_tag_gets_more_than_it_brought() {
    for (pings, pongs, sizes, refused) in [
        (1, 1, (15, 16), true),
        (1, 2, (15, 15), true),
        (2, 1, (8, 17), true),
        (1, 1, (15, 15), false),
        (2, 1, (8, 16), false),
        (1, 1000, (16, 65_507), false),
    ] {
        let open = OpenRequest { pings, pongs, max_size: 65_507, ..request() };
        let (mut client, mut server) = opened(open);
        if refused {
            refused_by_both(&mut client, &mut server, sizes, "16 bytes or more");
        } else {
            client.start(sizes.0, sizes.1).unwrap();
            to_server(&mut client, &mut server).unwrap();
        }
    }
}

/// Both machines after a request was accepted.
fn opened(open: OpenRequest) -> (ClientSession, ServerSession) {
    let (mut client, mut server) = (client(None), server(None));
    shake(&mut client, &mut server).unwrap();
    client.open(open).unwrap();
    to_server(&mut client, &mut server).unwrap();
    server
        .opened(Opened {
            port: 1,
            address: None,
            token: Token([0; 16]),
            machine: None,
            ports: Vec::new(),
            source: None,
        })
        .unwrap();
    server.proved(None).unwrap();
    to_client(&mut server, &mut client).unwrap();
    (client, server)
}

#[test]
fn messages_at_a_rate_hold_their_number_and_answers_are_no_longer() {
    for (size, response_size, refused) in
        [(8, 8, None), (7, 7, Some("size 7")), (8, 9, Some("as long")), (9, 8, Some("as long"))]
    {
        let open = OpenRequest { probe: Probe::Pace, pace: Some(PaceRequest::default()), ..request() };
        let (mut client, mut server) = opened(open);
        match refused {
            None => {
                client.start(size, response_size).unwrap();
                to_server(&mut client, &mut server).unwrap();
            }
            Some(why) => refused_by_both(&mut client, &mut server, (size, response_size), why),
        }
    }
}

#[test]
fn an_older_reflector_is_told_apart_by_its_build() {
    let (mut client, mut server) = (client(None), server(None));
    let mut first = server.poll_transmit().unwrap();
    let text = String::from_utf8(first.split_off(4)).unwrap();
    let old = text.replace("\"pace\"", "\"older\"");
    assert_ne!(old, text, "the hello names what it can do");
    let hello = wire::frame::encode(old.as_bytes(), 4096).unwrap();
    client.handle_bytes(&hello).unwrap();
    shake(&mut client, &mut server).unwrap();
    let open = OpenRequest { probe: Probe::Pace, pace: Some(PaceRequest::default()), ..request() };
    let error = client.open(open).unwrap_err();
    assert!(matches!(error, SessionError::Lacks { capability: "pace", .. }), "{error:?}");
    let text = error.to_string();
    assert_eq!(text.matches("windhover").count(), 3, "both builds, and what to do: {text}");
    assert!(!text.contains('\n'));
}

#[test]
fn a_large_frame_is_refused_by_its_length() {
    let mut server = server(None);
    let error = server.handle_bytes(&[0, 1, 0, 0]).unwrap_err();
    assert!(matches!(error, SessionError::Frame(FrameError::TooLong { length: 65536, .. })), "{error}");
    let (_, mut server) = ready(None);
    assert_eq!(server.handle_bytes(&[0, 1, 0, 0]), Ok(()));
    let (_, mut server) = ready(None);
    assert!(server.handle_bytes(&[0, 0x10, 0, 1]).is_err());
}
