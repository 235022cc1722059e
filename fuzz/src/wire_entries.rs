//! The readers of control sessions, messages and captured frames: each entry takes any bytes and checks what must hold for
//! any input.

use model::{Limits, Probe, Protocol};
use wire::client::{ClientConfig, ClientSession};
use wire::control::{ClientMessage, Nonce, Opened, ServerMessage, StopReport, Token, Versions, capability};
use wire::frame::{self, Decoder};
use wire::key::Key;
use wire::server::{ServerConfig, ServerEvent, ServerSession};
use wire::{OpenRequest, Reply, Request, Tier, data, stream};

/// Frames: what comes out was in the bytes, and nothing is held back that was not fed.
pub fn frame(bytes: &[u8]) {
    let mut decoder = Decoder::new(4096);
    for portion in bytes.chunks(7) {
        decoder.feed(portion);
        while let Ok(Some(payload)) = decoder.pop() {
            assert!(payload.len() <= bytes.len().min(4096));
        }
        assert!(decoder.buffered() <= bytes.len());
    }
    let _ = decoder.finish();
}

fn keys() -> [Option<Key>; 2] {
    [None, Some(Key::from_bytes([7; 32]))]
}

/// The reflector's control session, at its start and once a client is accepted.
pub fn control_server(bytes: &[u8]) {
    for key in keys() {
        for accepted in [false, true] {
            let Ok(mut server) = ServerSession::new(server_config(key.clone())) else { return };
            if accepted {
                let mut client = ClientSession::new(ClientConfig::new(key.clone(), [1; 32]));
                shake(&mut client, &mut server);
                assert!(server.is_accepted());
            }
            let outcome = server.handle_bytes(bytes);
            answer(&mut server);
            assert!(outcome.is_ok() || server.is_done());
            while server.poll_transmit().is_some() {}
        }
    }
}

/// The initiator's control session, at its start and once it is accepted.
pub fn control_client(bytes: &[u8]) {
    for key in keys() {
        for accepted in [false, true] {
            let mut client = ClientSession::new(ClientConfig::new(key.clone(), [1; 32]));
            if accepted {
                let Ok(mut server) = ServerSession::new(server_config(key.clone())) else { return };
                shake(&mut client, &mut server);
                while client.poll_event().is_some() {}
                let _ = client.open(OpenRequest::new(Probe::Pingpong, Protocol::Udp, 1024));
            }
            let outcome = client.handle_bytes(bytes);
            assert!(outcome.is_ok() || client.is_done());
            while client.poll_event().is_some() {}
            let _ = client.close();
        }
    }
}

/// Data headers and proving datagrams.
pub fn data_header(bytes: &[u8]) {
    let tier = Tier::for_size(bytes.len());
    if let Some(seq) = data::read(tier, 1, bytes) {
        assert_eq!(seq & tier.mask(), seq);
        let _ = data::expand(tier, seq, u64::MAX);
        let _ = data::expand(tier, seq, 0);
    }
    for other in [Tier::Nothing, Tier::Truncated(7), Tier::Truncated(255), Tier::Sequence, Tier::Tagged] {
        let _ = data::read(other, 1, bytes);
    }
    if let Some(token) = data::read_prove(bytes) {
        assert_eq!(data::prove(&token), bytes);
    }
    let (told, repaired) = (data::read_tx_stamp(bytes), data::read_repaired(bytes));
    let mut again = bytes.to_vec();
    data::write_tx_stamp(told, &mut again);
    data::write_repaired(repaired, &mut again);
    assert_eq!((data::read_tx_stamp(&again), data::read_repaired(&again)), (told, repaired));
    for wall in [false, true] {
        let stamps = data::read_stamps(bytes, wall);
        let mut again = bytes.to_vec();
        data::write_stamps(&stamps, &mut again);
        assert_eq!(data::read_stamps(&again, wall), stamps);
        assert_eq!(again.get(..16), bytes.get(..16), "number and tag stay");
        assert!(!wall || again == bytes, "what was read was all that there was");
    }
}

/// Heads of a stream's datagrams, and what proves its flows: what is read was in the bytes.
pub fn stream_header(bytes: &[u8]) {
    let tag = bytes.get(8..16).and_then(|tag| tag.first_chunk::<8>()).map_or(0, |tag| u64::from_le_bytes(*tag));
    let found = stream::read(tag, bytes);
    assert_eq!(found.is_some(), bytes.len() >= 16, "the tag is the only thing that makes a stray");
    if let Some((seq, stamp)) = found {
        assert_eq!(stamp.is_some(), bytes.len() >= stream::STAMPED);
        let mut again = bytes.to_vec();
        stream::write(seq, tag, stamp.unwrap_or_default(), &mut again);
        assert_eq!(again, bytes);
    }
    assert!(stream::read(tag.wrapping_add(1), bytes).is_none());
    if let Some((token, socket)) = stream::read_prove(bytes) {
        assert_eq!(stream::prove(&token, socket), bytes);
    }
}

/// Messages of the control session as JSON: what is read can be written and reads the same; a request that fits the
/// limits has sizes that do.
pub fn control_message(bytes: &[u8]) {
    if let Ok(message) = serde_json::from_slice::<ClientMessage>(bytes) {
        let text = serde_json::to_vec(&message).unwrap_or_default();
        let again = serde_json::from_slice::<ClientMessage>(&text);
        assert!(again.is_ok_and(|again| again == message), "{}", message.name());
        if let ClientMessage::Open(open) = message
            && open.check(&Limits::default()).is_ok()
        {
            for (size, response) in [(open.max_size, open.max_size), (0, u32::MAX), (u32::MAX, 0)] {
                let _ = open.check_sizes(size, response);
            }
        }
    }
    if let Ok(message) = serde_json::from_slice::<ServerMessage>(bytes) {
        let text = serde_json::to_vec(&message).unwrap_or_default();
        assert!(serde_json::from_slice::<ServerMessage>(&text).is_ok(), "{}", message.name());
    }
}

/// Captured frames, by every link layer, and the memory over them.
pub fn dissect(bytes: &[u8]) {
    let mut memory = wire::dissect::Recogniser::new(vec![7413]).with_pgm_ports(&[7500]);
    for number in [0, 1, 101, 113, 276] {
        let Some(link) = wire::dissect::Link::from_number(number) else { continue };
        for leaving in [None, Some(true), Some(false)] {
            for cut in [bytes.len(), bytes.len() / 2] {
                let frame = bytes.get(..cut).unwrap_or_default();
                if let Ok(packet) = wire::dissect::packet(link, frame, bytes.len()) {
                    assert!(packet.payload.len() <= frame.len());
                    if let wire::dissect::Message::Pgm(found) = memory.look(&packet, leaving).message {
                        assert!(found.packet.options().count() <= pgm::packet::MAX_OPTIONS);
                        let listed = found.packet.packet.map_or(0, |packet| packet.options.nak_list.iter().count());
                        assert!(listed <= 62);
                    }
                }
            }
        }
    }
}

/// Key files.
pub fn key_file(bytes: &[u8]) {
    if let Ok(key) = Key::parse_file(&String::from_utf8_lossy(bytes)) {
        assert_eq!(Key::parse_file(&key.to_file()).as_ref(), Ok(&key));
    }
}

/// Replies and requests on an agent's pipe: what is read can be written and read again.
pub fn agent_reply(bytes: &[u8]) {
    if let Ok(reply) = Reply::from_payload(bytes) {
        assert!(reply.to_frame().is_ok());
    }
    if let Ok(request) = Request::from_payload(bytes) {
        assert!(request.to_frame().is_ok());
    }
    let mut decoder = Decoder::new(frame::AGENT_LIMIT);
    decoder.feed(bytes);
    while let Ok(Some(payload)) = decoder.pop() {
        let _ = Reply::from_payload(&payload);
    }
}

fn server_config(key: Option<Key>) -> ServerConfig {
    ServerConfig {
        versions: Versions::OURS,
        tool_version: "0".to_owned(),
        build: None,
        capabilities: vec![capability::PACE.to_owned(), Protocol::Udp.word().to_owned()],
        limits: Limits::default(),
        key,
        nonce: Nonce([2; 32]),
        session: 1,
    }
}

/// Moves bytes between both ends until neither has more to say.
fn shake(client: &mut ClientSession, server: &mut ServerSession) {
    loop {
        let mut quiet = true;
        while let Some(bytes) = server.poll_transmit() {
            quiet = false;
            let _ = client.handle_bytes(&bytes);
        }
        while let Some(bytes) = client.poll_transmit() {
            quiet = false;
            let _ = server.handle_bytes(&bytes);
        }
        if quiet {
            return;
        }
    }
}

fn answer(server: &mut ServerSession) {
    while let Some(event) = server.poll_event() {
        let answered = match event {
            ServerEvent::Open(_) => server
                .opened(Opened {
                    port: 1,
                    address: None,
                    token: Token([0; 16]),
                    machine: None,
                    ports: Vec::new(),
                    source: None,
                })
                .and_then(|()| server.proved(None)),
            ServerEvent::Start { .. } => server.started(),
            ServerEvent::Stop => server.stopped(StopReport::default()),
            ServerEvent::Accepted { .. } | ServerEvent::Alive | ServerEvent::Closed => Ok(()),
        };
        assert!(answered.is_ok() || server.is_done());
    }
}
