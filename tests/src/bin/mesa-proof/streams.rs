//! The streams that stock and patched drivers are compared on, each about one way to ask for order.
//!
//! As in driver-truth, all streams are the same eight dispatches and differ in what stands between each two. Some have
//! more between, where a patch claims something about what comes between two barriers.

/// Dispatches in each stream.
pub const DISPATCHES: u64 = 8;

/// A stream.
pub struct Case {
    /// For tables and for the command line.
    pub name: &'static str,
    /// Statements between two dispatches.
    between: &'static str,
    /// The dispatches take their size from a buffer.
    indirect: bool,
}

const MEMORY: &str = "barrier compute_shader/shader_write -> compute_shader/shader_read";

const fn case(name: &'static str, between: &'static str) -> Case {
    Case { name, between, indirect: false }
}

/// All streams; the first has nothing in between.
pub const CASES: [Case; 16] = [
    case("none", ""),
    case("memory", MEMORY),
    case("execution-only", "barrier compute_shader -> compute_shader"),
    case("source-only", "barrier compute_shader/shader_write -> compute_shader"),
    case("destination-only", "barrier compute_shader -> compute_shader/shader_read"),
    case("buffer", "buffer-barrier a[0:256] compute_shader/shader_write -> compute_shader/shader_read"),
    case(
        "all-commands",
        "barrier all_commands/memory_read+memory_write -> all_commands/memory_read+memory_write",
    ),
    case(
        "transfer",
        "barrier compute_shader+all_transfer/shader_read+shader_write+transfer_read+transfer_write -> \
         compute_shader+all_transfer/shader_read+shader_write+transfer_read+transfer_write",
    ),
    case("host", "barrier compute_shader/shader_write -> host/host_read"),
    case("to-indirect", "barrier compute_shader/shader_write -> draw_indirect/indirect_command_read"),
    Case { name: "indirect-dispatch", between: MEMORY, indirect: true },
    case(
        "event",
        "set-event e compute_shader\nwait-event e compute_shader/shader_write -> compute_shader/shader_read",
    ),
    case(
        "barrier-after-barrier",
        "barrier compute_shader/shader_write -> compute_shader/shader_read\n\
         barrier compute_shader/shader_write -> compute_shader/shader_read",
    ),
    case(
        "barrier-timestamp-barrier",
        "barrier compute_shader/shader_write -> compute_shader/shader_read\ntimestamp\n\
         barrier compute_shader/shader_write -> compute_shader/shader_read",
    ),
    case(
        "barrier-event-barrier",
        "barrier compute_shader/shader_write -> compute_shader/shader_read\nset-event e compute_shader\n\
         barrier compute_shader/shader_write -> compute_shader/shader_read",
    ),
    case(
        "copy-between",
        "barrier compute_shader/shader_write -> all_transfer/transfer_read+transfer_write\n\
         copy a[0:256] c[0:256]\nfill c[256:256] 7\n\
         barrier all_transfer/transfer_write -> compute_shader/shader_read",
    ),
];

impl Case {
    /// The stream, for the stream player.
    pub fn stream(&self) -> String {
        let by = if self.indirect { " by n" } else { "" };
        let dispatches: Vec<String> = (0..DISPATCHES)
            .map(|i| format!("dispatch step {}{by}", ["a b", "b a"][i as usize % 2]))
            .collect();
        // Queries must be reset before timestamps; every stream does it, so that they stay comparable.
        let body = dispatches.join(&format!("\n{}\n", self.between));
        format!(
            "buffer a 4096\nbuffer b 4096\nbuffer c 4096\nbuffer n 12\ndata n words 1 1 1\nevent e\n\
             begin r\nreset-queries\n{body}\nend\nsubmit r\nwait\n"
        )
    }
}
