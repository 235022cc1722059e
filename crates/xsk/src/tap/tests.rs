use super::*;
use std::sync::Arc;

type Words = Arc<[AtomicU64]>;

/// A ring of this many words for records, both ends in one process.
fn ring(records: usize, snap: u64) -> (Writer<Words>, Reading<Words>) {
    let words: Words = (0..HEAD_WORDS + records).map(|_| AtomicU64::new(0)).collect();
    put(&words, AT_MAGIC, MAGIC);
    put(&words, AT_SNAP, snap);
    (Writer::new(Arc::clone(&words)).unwrap(), Reading::new(words).unwrap())
}

fn frame(number: usize) -> Vec<u8> {
    (0..14 + number * 7 % 90).map(|at| u8::try_from((number + at) % 251).unwrap()).collect()
}

/// Catches: a record that is cut, garbled or lost where the ring begins anew, in any of its words.
#[test]
fn frames_come_out_as_they_went_in_also_around_the_end() {
    let (mut writer, mut reading) = ring(64, LONGEST as u64);
    let mut bytes = Vec::new();
    for number in 0..1000 {
        for half in 0..2 {
            writer.frame(|| number as u64 + 5, half == 1, &frame(number + half));
        }
        for half in 0..2 {
            let one = reading.next(&mut bytes).unwrap().unwrap();
            assert_eq!(bytes, frame(number + half), "{number}");
            let length = u32::try_from(bytes.len()).unwrap();
            assert_eq!(one, TappedFrame { time_ns: number as u64 + 5, leaving: half == 1, length });
        }
        assert_eq!(reading.next(&mut bytes), Ok(None));
    }
    assert_eq!(at(&writer.words, AT_DROPPED), 0);
}

#[test]
fn frames_are_cut_and_their_length_stays() {
    let (mut writer, mut reading) = ring(1 << 14, 20);
    let mut bytes = Vec::new();
    for length in [0, 1, 7, 8, 9, 19, 20, 21, 65_000] {
        writer.frame(|| 1, false, &vec![7; length]);
        let one = reading.next(&mut bytes).unwrap().unwrap();
        assert_eq!((one.length as usize, bytes.len()), (length, length.min(20)));
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
    // More than any frame has is no more than the longest frame.
    let (mut writer, mut reading) = ring(1 << 14, u64::MAX);
    writer.frame(|| 1, false, &[7; 65_600]);
    assert_eq!(reading.next(&mut bytes).unwrap().map(|one| one.length), Some(65_600));
    assert_eq!(bytes.len(), 65_600);
}

/// Catches: a full ring that loses what it has, blocks, or counts wrongly.
#[test]
fn what_finds_no_room_is_counted_and_the_rest_stays() {
    let (mut writer, mut reading) = ring(64, 1000);
    // Five words each: twelve fit.
    for number in 0..20 {
        writer.frame(|| number, true, &[u8::try_from(number).unwrap(); 20]);
    }
    assert_eq!(at(&writer.words, AT_DROPPED), 8);
    // Four words are left: one without content fits.
    writer.frame(|| 99, true, &[]);
    let mut bytes = Vec::new();
    for number in (0..12).chain([99]) {
        assert_eq!(reading.next(&mut bytes).unwrap().unwrap().time_ns, number);
    }
    assert_eq!(reading.next(&mut bytes), Ok(None));
    writer.frame(|| 100, true, &[1; 400]);
    assert_eq!((reading.next(&mut bytes).unwrap().unwrap().time_ns, bytes.len()), (100, 400));
    writer.frame(|| 101, true, &[1; 600]);
    assert_eq!((at(&writer.words, AT_DROPPED), reading.next(&mut bytes)), (9, Ok(None)), "longer than the ring");
}

/// Catches: an index of the other end that is believed.
#[test]
fn hostile_positions_neither_crash_nor_block_an_end() {
    for tail in [1, 63, 64, 65, 1 << 32, u64::MAX, u64::MAX - 63, 1 << 63] {
        let (mut writer, _) = ring(64, 1000);
        put(&writer.words, AT_TAIL, tail);
        for length in 0..200 {
            writer.frame(|| 1, true, &vec![3; length]);
        }
        let head = at(&writer.words, AT_HEAD);
        assert!(head <= 129 && at(&writer.words, AT_DROPPED) > 150, "{tail}: {head}");
    }
    for head in [1, 65, 1 << 32, u64::MAX, 1 << 63] {
        let (_, mut reading) = ring(64, 1000);
        put(&reading.words, AT_HEAD, head);
        assert_eq!(reading.next(&mut Vec::new()), Err(DamagedRing), "{head}");
    }
    // A frame that is longer than what was written, than a frame can be, or than it was before it was cut.
    for first in [9 | 9 << LENGTH_BITS, LENGTH | LENGTH << LENGTH_BITS, 8, u64::MAX] {
        let (_, mut reading) = ring(64, 1000);
        put(&reading.words, HEAD_WORDS, first);
        put(&reading.words, AT_HEAD, 3);
        assert_eq!(reading.next(&mut Vec::new()), Err(DamagedRing), "{first:#x}");
    }
    // Positions that are far on are positions.
    let (writer, _) = ring(64, 1000);
    [AT_HEAD, AT_TAIL].iter().for_each(|index| put(&writer.words, *index, u64::MAX - 2));
    let (mut writer, mut reading) = (Writer::new(writer.words.clone()).unwrap(), Reading::new(writer.words).unwrap());
    writer.frame(|| 8, true, &[5; 30]);
    assert_eq!(reading.next(&mut Vec::new()).unwrap().unwrap().time_ns, 8);
}

#[test]
fn two_threads_exchange_all_that_is_not_dropped() {
    const FRAMES: u64 = 30_000;
    let content = |number: u64| number.to_ne_bytes().repeat(1 + usize::from(number.to_le_bytes()[0] % 20));
    let (mut writer, mut reading) = ring(1 << 10, 1000);
    let words = Arc::clone(&writer.words);
    let thread = std::thread::spawn(move || {
        for number in 0..FRAMES {
            let dropped = writer.dropped;
            writer.frame(|| number, number % 2 == 0, &content(number));
            if writer.dropped > dropped {
                // The reader's turn, also on one CPU.
                std::thread::yield_now();
            }
        }
        writer.dropped
    });
    let (mut bytes, mut read, mut next) = (Vec::new(), 0, 0);
    loop {
        let is_over = thread.is_finished();
        while let Some(one) = reading.next(&mut bytes).unwrap() {
            assert!(one.time_ns >= next && one.leaving == (one.time_ns % 2 == 0));
            assert_eq!(bytes, content(one.time_ns));
            (read, next) = (read + 1, one.time_ns + 1);
        }
        if is_over {
            break;
        }
    }
    let dropped = thread.join().unwrap();
    assert_eq!((read + dropped, at(&words, AT_DROPPED)), (FRAMES, dropped));
    assert!(read > 1000, "{read}");
}

/// Catches: a second writer, one that comes after the reader, and a reader's end that is not seen.
#[test]
fn a_ring_has_one_writer_and_ends_with_its_reader() {
    let mut reader = TapReader::new(1, 100).unwrap();
    let request = reader.request();
    assert!(is_tap_open(request) && !is_tap_open(0) && !is_tap_open(request + 1));
    assert_eq!(reader.owner(), None);
    let mut tap = Tap::open(request).unwrap();
    assert_eq!(reader.described(), (String::new(), None), "an interface before it is told");
    tap.describe("a-name-of-15-ch", Backend::Generic);
    assert_eq!(reader.owner(), Some(std::process::id()));
    assert_eq!(reader.described(), ("a-name-of-15-ch".to_owned(), Some(Backend::Generic)));
    tap.frame(true, &[1; 300]);
    let mut bytes = Vec::new();
    let one = reader.next(&mut bytes).unwrap().unwrap();
    assert_eq!((one.leaving, one.length, bytes.len()), (true, 300, 100));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    assert!(now.abs_diff(u128::from(one.time_ns)) < 60_000_000_000, "{}", one.time_ns);
    // What was another process.
    put(&reader.ring.words, AT_OWNER, 1);
    assert_eq!(Tap::open(request).unwrap_err().raw_os_error(), Some(libc::EBUSY));
    reader.release(2);
    assert_eq!(reader.owner(), Some(1), "released for another");
    reader.release(1);
    drop(Tap::open(request).unwrap());
    assert_eq!(reader.owner(), None, "it lets go");
    assert!(tap.has_reader());
    drop(reader);
    assert!(!tap.has_reader() && !is_tap_open(request));
    // Nobody reads, and it is no error to write.
    (0..100_000).for_each(|_| tap.frame(false, &[1; 100]));
    assert!(tap.ring.dropped > 50_000);
    assert!(Tap::open(request).is_err());
}

/// Catches: a file that could shrink under the writer.
#[test]
fn a_file_that_is_no_ring_is_refused() {
    let request = |file: &File| u64::from(std::process::id()) << 32 | (u64::from(file.as_raw_fd().unsigned_abs()) + 1);
    let refused = |request| Tap::open(request).unwrap_err().raw_os_error();
    let zero = File::options().read(true).write(true).open("/dev/zero").unwrap();
    assert_eq!(refused(request(&zero)), Some(libc::EINVAL));
    let sealed = File::from(sys::sealed_memory(c"other", (HEAD_WORDS + 64) * 8).unwrap());
    assert_eq!(refused(request(&sealed)), Some(libc::EINVAL), "no ring");
    let odd = File::from(sys::sealed_memory(c"other", (HEAD_WORDS + 65) * 8).unwrap());
    assert_eq!(refused(request(&odd)), Some(libc::EINVAL));
    let reader = TapReader::new(1, 100).unwrap();
    assert!(File::from(reader.file.try_clone().unwrap()).set_len(8).is_err(), "it can shrink");
    assert_eq!(refused(0), Some(libc::ENOENT));
    assert_eq!(TapReader::new(3, 100).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(TapReader::new(0, 100).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn any_content_is_read_without_harm() {
    let mut seed = 7_u64;
    for round in 0..2000 {
        let bytes: Vec<u8> = (0..600)
            .map(|at| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Small positions and lengths are those that get far.
                let byte = u8::try_from(seed >> 56).unwrap();
                if at % 8 == 0 || round % 4 == 0 { byte & 63 } else { 0 }
            })
            .collect();
        exercise_tap(&bytes);
    }
    exercise_tap(&[]);
}
