//! Big-endian fields, read and written in order; nothing here can step outside its buffer.

use super::{ParseError, WriteError};

pub(super) struct Reader<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(all: &'a [u8]) -> Self {
        Self { all, at: 0 }
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<&'a [u8], ParseError> {
        let end = self.at.checked_add(bytes);
        let taken = end.and_then(|end| self.all.get(self.at..end));
        let taken = taken.ok_or(ParseError::Short { at: self.at, needed: bytes, there: self.left() })?;
        self.at += bytes;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], ParseError> {
        let (at, there) = (self.at, self.left());
        self.take(N)?.first_chunk().ok_or(ParseError::Short { at, needed: N, there })
    }

    pub(super) fn u8(&mut self) -> Result<u8, ParseError> {
        self.array::<1>().map(|bytes| bytes[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, ParseError> {
        self.array().map(|bytes| u16::from_be_bytes(*bytes))
    }

    pub(super) fn u32(&mut self) -> Result<u32, ParseError> {
        self.array().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// Where the next field begins, from the start of what is read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.all.len() - self.at
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        let rest = self.all.get(self.at..).unwrap_or_default();
        self.at = self.all.len();
        rest
    }
}

pub(super) struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, at: 0 }
    }

    pub(super) fn length(&self) -> usize {
        self.at
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let room = self.buffer.len();
        let end = self.at + bytes.len();
        let place = self.buffer.get_mut(self.at..end).ok_or(WriteError::NoRoom(room))?;
        place.copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    pub(super) fn u8(&mut self, value: u8) -> Result<(), WriteError> {
        self.bytes(&[value])
    }

    pub(super) fn u16(&mut self, value: u16) -> Result<(), WriteError> {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> Result<(), WriteError> {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn words(&mut self, words: &[u32]) -> Result<(), WriteError> {
        words.iter().try_for_each(|word| self.u32(*word))
    }

    /// Overwrites the bytes at `at`.
    pub(super) fn again(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.buffer.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    pub(super) fn byte_at(&self, at: usize) -> u8 {
        self.buffer.get(at).copied().unwrap_or_default()
    }
}
