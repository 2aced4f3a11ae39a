//! Streams of compressed text: gzip members and Zstandard frames, one after the other.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Consecutive gzip members. Zeros after the last member are padding, as in gzip itself.
pub(super) struct Gzip<R> {
    /// `None` only while a member ends.
    state: Option<Member<R>>,
}

enum Member<R> {
    /// Between two members.
    Next(R),
    Open(Box<GzDecoder<R>>),
}

impl<R: BufRead> Gzip<R> {
    pub(super) fn new(source: R) -> Gzip<R> {
        Gzip { state: Some(Member::Next(source)) }
    }
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = self.state.take() {
            match member {
                Member::Next(mut source) => {
                    if !is_followed(&mut source)? {
                        return Ok(0);
                    }
                    self.state = Some(Member::Open(Box::new(GzDecoder::new(source))));
                }
                Member::Open(mut decoder) => match decoder.read(buffer) {
                    Ok(0) if !buffer.is_empty() => {
                        self.state = Some(Member::Next(decoder.into_inner()));
                    }
                    read => {
                        self.state = Some(Member::Open(decoder));
                        return read;
                    }
                },
            }
        }
        Ok(0)
    }
}

/// Whether another member follows; zeros before the end are skipped.
fn is_followed(source: &mut impl BufRead) -> io::Result<bool> {
    let mut padded = false;
    loop {
        let ahead = source.fill_buf()?;
        let zeros = ahead.iter().take_while(|&&byte| byte == 0).count();
        match ahead.get(zeros) {
            Some(_) if !padded && zeros == 0 => return Ok(true),
            Some(_) => {
                let message = "zeros follow a gzip member, and other bytes follow them";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            None if zeros == 0 => return Ok(false),
            None => {
                padded = true;
                source.consume(zeros);
            }
        }
    }
}

/// Consecutive Zstandard frames, including skippable ones.
pub(crate) struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    /// Whether the decoder is inside a frame.
    open: bool,
}

impl<R: BufRead> Zstd<R> {
    pub(crate) fn new(source: R) -> Zstd<R> {
        Zstd { source, decoder: FrameDecoder::new(), open: false }
    }

    /// Begins the next frame; false if there is none.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.open = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = io::copy(&mut (&mut self.source).take(length.into()), &mut io::sink())?;
                    if skipped < length.into() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string())),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.open && !self.next_frame()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if let (Some(said), Some(found)) =
                (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum())
                && said != found
            {
                let message = format!("a frame's checksum is {found:08x}, but the frame has {said:08x}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.open = false;
        }
    }
}
