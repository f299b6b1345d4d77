//! A record of what an application dispatches, for those who work on the layer (`ZINC_BARRIER_CAPTURE=FOLDER`).
//!
//! One folder a device: `stream.txt` with one event a line, and `NUMBER.spv` for each compute pipeline. The examples of
//! `zinc-reflect` read it: `footprints` says how tight the extents of the dispatches are and how many conflicts they
//! leave, `checked` runs the dispatches with shaders that log where they land. It holds no contents of memory; it does
//! hold the application's shaders.
//!
//! Lines: `P pipeline entry-point id=value,...`, `D pipeline x y z base-x base-y base-z xPUSH place...` with places
//! `set.binding:Read|Write:memory:start:end`, `A address size` for a buffer whose address was asked for, `B` for a barrier
//! asked, `E` for the end of a command buffer. Command buffers that are recorded at the same time are mixed up.

use crate::descriptors::{Set, Slot};
use crate::pipelines::Pipeline;
use crate::recorder::Bound;
use ash::vk;
use parking_lot::Mutex;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use zinc_hazard::Range;
use zinc_reflect::Specialization;

/// A capture in progress. After the first failure to write nothing more is written.
#[derive(Debug)]
pub struct Capture {
    folder: PathBuf,
    stream: Mutex<Option<BufWriter<File>>>,
}

impl Capture {
    /// Begins a capture in `folder`, which must not be there yet.
    ///
    /// # Errors
    ///
    /// When the folder is there or can't be made, or nothing can be written in it.
    pub fn begin(folder: &Path) -> io::Result<Capture> {
        if let Some(parent) = folder.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::create_dir(folder)?;
        let stream = BufWriter::new(File::create(folder.join("stream.txt"))?);
        Ok(Capture { folder: folder.into(), stream: Mutex::new(Some(stream)) })
    }

    fn line(&self, line: &str, flush: bool) {
        let mut stream = self.stream.lock();
        let written = match &mut *stream {
            Some(stream) => {
                writeln!(stream, "{line}").and_then(|()| if flush { stream.flush() } else { Ok(()) })
            }
            None => return,
        };
        if written.is_err() {
            *stream = None;
        }
    }

    /// The compute pipeline of this number was made.
    pub fn pipeline(&self, number: u64, words: &[u32], name: &str, constants: &Specialization) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if std::fs::write(self.folder.join(format!("{number}.spv")), bytes).is_err() {
            *self.stream.lock() = None;
        }
        let constants: String = constants.iter().map(|(id, value)| format!("{id}={value},")).collect();
        self.line(&format!("P {number} {name} {constants}"), true);
    }

    /// A buffer of `size` bytes begins at `address`.
    pub fn address(&self, address: u64, size: u64) {
        self.line(&format!("A {address} {size}"), false);
    }

    /// A barrier was asked for.
    pub fn barrier(&self) {
        self.line("B", false);
    }

    /// A command buffer ends.
    pub fn end(&self) {
        self.line("E", true);
    }

    /// A dispatch of what is bound; `grid` is the first workgroup and their number.
    pub fn dispatch<'a>(
        &self,
        pipeline: Option<&Pipeline>,
        bound: &Bound,
        find: impl Fn(vk::DescriptorSet) -> Option<&'a Set>,
        (base, groups): ([u32; 3], [u32; 3]),
    ) {
        let Some((number, shader)) = pipeline.and_then(|p| Some((p.number, p.shader.as_ref()?))) else {
            return;
        };
        let numbers: String = groups.iter().chain(&base).map(|number| format!(" {number}")).collect();
        let push: String = bound.push_constants.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut line = format!("D {number}{numbers} x{push}");
        for binding in &shader.bindings {
            let place = bound.sets.get(binding.set as usize).and_then(Option::as_ref).filter(|set| !set.lost);
            let Some(bound) = place else { continue };
            let set = match &bound.pushed {
                Some(set) => set,
                None => match find(bound.handle) {
                    Some(set) => set,
                    None => continue,
                },
            };
            set.visit(binding.binding, None, &bound.dynamic_offsets, |slot, dynamic| {
                let Slot::Bytes(extent) = slot else { return };
                let Range::Bytes { memory, start, end } = extent.range(dynamic, 1) else { return };
                let directions = [(binding.direction.read, "Read"), (binding.direction.write, "Write")];
                for (_, kind) in directions.into_iter().filter(|(touched, _)| *touched) {
                    let place = (binding.set, binding.binding);
                    let _ = write!(line, " {}.{}:{kind}:{}:{start}:{end}", place.0, place.1, memory.0);
                }
            });
        }
        self.line(&line, false);
    }
}
