use super::*;
use std::os::unix::fs::symlink;
use std::sync::atomic::AtomicBool;

fn spec(data_bytes: usize, history: u32) -> ImageSpec {
    ImageSpec {
        layout: 77,
        data_bytes,
        history,
        topic_id: 3,
        period_ns: 1_000_000,
        deadline_ns: 500_000,
        stale_ns: 3_500_000,
        on_stale: OnStale::Hold,
    }
}

fn sample(sequence: u64) -> Sample {
    Sample { quality: Quality::Stale, sequence, epoch: 2, cycle: 4, scheduled_ns: 5, sent_ns: 6, stored_ns: 7 }
}

/// Data whose bytes all depend on the number, so that a mixture of two samples is seen.
fn data(sequence: u64, bytes: usize) -> Vec<u8> {
    let mut random = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().into_iter().cycle();
    (0..bytes).map(|_| random.next().unwrap()).collect()
}

#[test]
fn what_is_written_is_read_with_those_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let mut writer = ImageWriter::create(&path, &spec(13, 4)).unwrap();
    let reader = ImageReader::open(&path, Some(77)).unwrap();
    assert_eq!((reader.spec(), reader.pid()), (&spec(13, 4), u64::from(std::process::id())));
    let mut read = [0; 13];
    assert_eq!(reader.latest(&mut read), Ok(None), "nothing was written yet");
    for number in 0..10 {
        writer.write(&sample(number), &data(number, 13));
    }
    assert_eq!(reader.latest(&mut read), Ok(Some(sample(9))));
    assert_eq!(read[..], data(9, 13));
    // One of the four kept may be under the writer's pen.
    for number in 7..10 {
        assert_eq!(reader.numbered(number, &mut read), Ok(Some(sample(number))));
        assert_eq!(read[..], data(number, 13));
    }
    assert_eq!(reader.numbered(5, &mut read), Ok(None));
    assert_eq!(reader.numbered(10, &mut read), Ok(None));
    let counts = Counters {
        received: 1,
        missing: 2,
        duplicates: 3,
        reordered: 4,
        misses: 5,
        longest_run: 6,
        ..Counters::default()
    };
    writer.count(&counts);
    assert_eq!((reader.counts(), reader.written()), (counts, 10));
    assert!(path.exists());
    drop(writer.remove_at_end());
    assert!(!path.exists());
}

#[test]
fn a_dead_writer_is_known_and_the_next_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let mut writer = ImageWriter::create(&path, &spec(32, 2)).unwrap();
    let reader = ImageReader::open(&path, None).unwrap();
    writer.write(&Sample { stored_ns: 1_000_000_000, ..sample(0) }, &data(0, 32));
    assert!(reader.is_writer_alive(1_500_000_000) && !reader.is_writer_alive(1_500_000_001));
    writer.beat(2_000_000_000);
    assert!(reader.is_writer_alive(2_100_000_000));
    let error = ImageWriter::create(&path, &spec(32, 2)).unwrap_err().to_string();
    assert!(error.contains(&format!("is written by process {}", std::process::id())), "{error}");
    // It dies within a write of the latest sample: that before it is in the ring.
    writer.words[AT_SLOTS].fetch_add(1, Relaxed);
    writer.words[AT_SLOTS + 1].store(u64::MAX, Relaxed);
    drop(writer);
    let first = Ok(Some(Sample { stored_ns: 1_000_000_000, ..sample(0) }));
    assert_eq!(reader.latest(&mut [0; 32]), first);
    let mut next = ImageWriter::create(&path, &spec(32, 2)).unwrap();
    assert_eq!(reader.latest(&mut [0; 32]), first, "half a sample is none");
    next.write(&sample(9), &data(9, 32));
    assert_eq!(reader.latest(&mut [0; 32]), Ok(Some(sample(9))), "readers have it mapped still");
    drop(next);
    let other = ImageWriter::create(&path, &ImageSpec { layout: 78, ..spec(32, 2) }).unwrap();
    assert_eq!(reader.latest(&mut [0; 32]), Ok(Some(sample(9))), "another layout has a file of its own");
    assert!(matches!(ImageReader::open(&path, Some(77)), Err(ImageError::Layout { .. })));
    drop(other);
    let path = folder.path().join("without a ring");
    let mut writer = ImageWriter::create(&path, &spec(32, 0)).unwrap();
    writer.write(&sample(0), &data(0, 32));
    writer.words[AT_SLOTS].fetch_add(1, Relaxed);
    assert_eq!(ImageReader::open(&path, None).unwrap().latest(&mut [0; 32]), Err(Busy));
}

#[test]
fn what_is_no_image_is_refused_with_one_line_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    assert!(matches!(ImageReader::open(&path, None), Err(ImageError::Open { .. })));
    drop(ImageWriter::create(&path, &spec(32, 2)).unwrap());
    let good = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8], words: &str| {
        std::fs::write(&path, bytes).unwrap();
        let error = ImageReader::open(&path, None).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    };
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    refused(&good[..good.len() - 64], "bytes where its header says");
    refused(&good[..100], "it is shorter than a header");
    refused(&with(0, b'X'), "it has no magic number");
    refused(&with(8, 2), "it has another version");
    refused(&with(24, 33), "its header has a wrong checksum");
    let text = "a text of somebody, which is no image";
    std::fs::write(&path, text).unwrap();
    assert!(matches!(ImageWriter::create(&path, &spec(32, 2)), Err(ImageError::Damaged { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    assert!(ImageWriter::create(&link, &spec(32, 2)).is_err() && ImageReader::open(&link, None).is_err());
    std::fs::write(&path, &good).unwrap();
    assert!(ImageReader::open(&path, None).is_ok());
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        for error in
            [ImageReader::open(&path, None).unwrap_err(), ImageWriter::create(&path, &spec(32, 2)).unwrap_err()]
        {
            assert!(error.to_string().contains("belongs to user 12345, not to this process's user 0"), "{error}");
        }
    } else {
        eprintln!("PARTLY what_is_no_image_is_refused_with_one_line_and_left_alone: another user's image needs root");
    }
}

/// A writer at full speed and readers of the latest and of the ring: no sample is a mixture of two.
#[test]
fn no_read_is_torn() {
    const BYTES: usize = 104;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let mut writer = ImageWriter::create(&path, &spec(BYTES, 8)).unwrap();
    let stop = AtomicBool::new(false);
    let read = |numbered: bool| {
        let reader = ImageReader::open(&path, None).unwrap();
        let (mut bytes, mut whole, mut last) = (vec![0; BYTES], 0_u64, 0);
        while whole < 60_000 {
            let written = reader.written();
            let number = written.saturating_sub(1 + whole % 7);
            let found = if numbered { reader.numbered(number, &mut bytes) } else { reader.latest(&mut bytes) };
            let Ok(Some(sample)) = found else { continue };
            assert_eq!(bytes, data(sample.sequence, BYTES));
            assert_eq!((sample.cycle, sample.sent_ns), (!sample.sequence, sample.sequence ^ 5));
            if numbered {
                assert_eq!(sample.sequence, number);
            } else {
                assert!(sample.sequence >= last, "{} after {last}: the latest never goes back", sample.sequence);
                last = sample.sequence;
            }
            whole += 1;
        }
    };
    std::thread::scope(|scope| {
        let readers = [false, true].map(|numbered| scope.spawn(move || read(numbered)));
        scope.spawn(|| {
            for sequence in 0.. {
                if stop.load(Relaxed) {
                    break;
                }
                let sample = Sample { cycle: !sequence, sent_ns: sequence ^ 5, ..sample(sequence) };
                writer.write(&sample, &data(sequence, BYTES));
            }
        });
        let ended = readers.map(std::thread::ScopedJoinHandle::join);
        stop.store(true, Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
}
