//! The language of streams: one statement a line, `#` begins a comment.
//!
//! A test of the layer wants to say "these operations, these barriers" and nothing else, and to say it so that a
//! reader sees at once whether the barrier is needed. Vulkan needs some two hundred lines for that, so the player
//! has a language with one word for each call that matters to the layer. It has neither variables nor loops: tests
//! that need many lines make them with `format!`.
//!
//! The parser only knows the shape of statements. Whether a name exists is found out when it is played, because
//! buffers and sets may be destroyed and made again (handles are reused, docs/semantics.md).
//!
//! tests/README.md describes each statement.

use anyhow::{Context, Result, bail, ensure};
use zinc_hazard::{Barrier, Flags, Scope, Stages};

/// A part of a buffer: `NAME`, `NAME[OFFSET:SIZE]`, or `NAME[OFFSET:]` up to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub buffer: String,
    pub offset: u64,
    /// In bytes; `None` is VK_WHOLE_SIZE.
    pub size: Option<u64>,
}

/// What the host writes into a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// 0, 1, 2, ... as 32-bit words.
    Iota,
    /// The given words, over and over.
    Words(Vec<u32>),
}

/// How often a command buffer may be used, and at which level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub once: bool,
    pub simultaneous: bool,
    pub secondary: bool,
}

/// Which of the two families of commands and structures is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// As in Vulkan 1.0.
    First,
    /// As in VK_KHR_synchronization2.
    Second,
}

/// What a barrier names beside its scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A global memory barrier.
    Memory,
    /// A buffer memory barrier.
    Buffer(Part),
    /// An image memory barrier, with the old and the new layout.
    Image(String, Layout, Layout),
}

/// The image layouts that streams need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Undefined,
    General,
    TransferSrc,
    TransferDst,
}

/// How many workgroups are dispatched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    /// From 0 on, in x; `None` is as many as the largest bound part needs.
    Count(Option<u32>),
    /// `vkCmdDispatchBase`: first workgroup and number of them.
    Base(u32, u32),
    /// `vkCmdDispatchIndirect`.
    Indirect(Part),
}

/// One recorded command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Barrier {
        api: Api,
        subject: Subject,
        barrier: Barrier,
    },
    /// Binds the pipeline, a fresh descriptor set with `parts` from binding 0 on, and the push constant; dispatches.
    Dispatch {
        kernel: String,
        parts: Vec<Part>,
        groups: Groups,
        k: u32,
    },
    Bind {
        kernel: String,
        dynamic: bool,
    },
    Use {
        set: String,
        offsets: Vec<u32>,
    },
    Push(u32),
    /// The device address of a part, behind the push constant.
    PushAddress(Part),
    Go(Groups),
    Copy {
        api: Api,
        from: Part,
        to: Part,
    },
    Fill(Part, u32),
    Update(Part, Vec<u32>),
    CopyToImage(Part, String),
    CopyFromImage(String, Part),
    SetEvent(String, Stages),
    WaitEvent(String, Barrier),
    ResetQueries,
    Timestamp,
    Execute(Vec<String>),
}

/// A command buffer with the commands recorded into it, each with its line number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    pub name: String,
    pub usage: Usage,
    pub commands: Vec<(usize, Command)>,
}

/// What the host does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    Memory {
        name: String,
        size: u64,
    },
    Buffer {
        name: String,
        size: u64,
        place: Option<(String, u64)>,
    },
    Destroy(String),
    Data {
        buffer: String,
        data: Data,
    },
    Image(String),
    Event(String),
    Set {
        name: String,
        dynamic: bool,
    },
    Write {
        set: String,
        binding: u32,
        parts: Vec<Part>,
    },
    CopySet {
        from: (String, u32),
        to: (String, u32),
        count: u32,
    },
    Record(Recording),
    /// Recorded at the same time, each by a thread of its own.
    Threads(Vec<Recording>),
    Reset(String),
    Submit {
        api: Api,
        names: Vec<String>,
    },
    Wait,
}

/// Whether a program has shaders reach memory by addresses.
pub fn takes_addresses(program: &[(usize, Statement)]) -> bool {
    program.iter().any(|(_, statement)| {
        let recordings = match statement {
            Statement::Record(recording) => std::slice::from_ref(recording),
            Statement::Threads(recordings) => recordings,
            _ => &[],
        };
        let mut commands = recordings.iter().flat_map(|recording| &recording.commands);
        commands.any(|(_, command)| matches!(command, Command::PushAddress(_)))
    })
}

/// Reads a whole program. Errors name the line.
pub fn parse(text: &str) -> Result<Vec<(usize, Statement)>> {
    let mut parser = Parser::default();
    for (i, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        if let [verb, rest @ ..] = words.as_slice() {
            parser.line(i + 1, verb, rest).with_context(|| format!("line {}: {}", i + 1, line.trim()))?;
        }
    }
    ensure!(parser.open.is_none(), "the last 'begin' has no 'end'");
    ensure!(parser.threads.is_none(), "'threads' has no 'join'");
    Ok(parser.done)
}

#[derive(Default)]
struct Parser {
    done: Vec<(usize, Statement)>,
    open: Option<Recording>,
    threads: Option<Vec<Recording>>,
}

impl Parser {
    fn line(&mut self, number: usize, verb: &str, rest: &[&str]) -> Result<()> {
        match (verb, &mut self.open) {
            ("begin", None) => self.open = Some(begin(rest)?),
            ("end", Some(_)) => {
                let Some(recording) = self.open.take() else { bail!("nothing to end") };
                match &mut self.threads {
                    Some(threads) => threads.push(recording),
                    None => self.done.push((number, Statement::Record(recording))),
                }
            }
            (_, Some(recording)) => recording.commands.push((number, command(verb, rest)?)),
            ("threads", None) => {
                ensure!(self.threads.is_none(), "'threads' inside 'threads'");
                self.threads = Some(Vec::new());
            }
            ("join", None) => {
                let Some(recordings) = self.threads.take() else { bail!("'join' without 'threads'") };
                self.done.push((number, Statement::Threads(recordings)));
            }
            (_, None) => {
                ensure!(self.threads.is_none(), "only 'begin' may stand between 'threads' and 'join'");
                self.done.push((number, statement(verb, rest)?));
            }
        }
        Ok(())
    }
}

fn begin(words: &[&str]) -> Result<Recording> {
    let [name, flags @ ..] = words else { bail!("begin NAME [once] [simultaneous] [secondary]") };
    let mut usage = Usage::default();
    for flag in flags {
        match *flag {
            "once" => usage.once = true,
            "simultaneous" => usage.simultaneous = true,
            "secondary" => usage.secondary = true,
            other => bail!("unknown usage '{other}'; there are once, simultaneous and secondary"),
        }
    }
    Ok(Recording { name: name.to_string(), usage, commands: Vec::new() })
}

fn statement(verb: &str, words: &[&str]) -> Result<Statement> {
    Ok(match (verb, words) {
        ("memory", [name, size]) => Statement::Memory { name: name.to_string(), size: number(size)? },
        ("buffer", [name, size]) => {
            Statement::Buffer { name: name.to_string(), size: number(size)?, place: None }
        }
        ("buffer", [name, size, "in", memory, "at", offset]) => {
            let place = Some((memory.to_string(), number(offset)?));
            Statement::Buffer { name: name.to_string(), size: number(size)?, place }
        }
        ("destroy", [name]) => Statement::Destroy(name.to_string()),
        ("data", [buffer, "iota"]) => Statement::Data { buffer: buffer.to_string(), data: Data::Iota },
        ("data", [buffer, "words", values @ ..]) if !values.is_empty() => {
            Statement::Data { buffer: buffer.to_string(), data: Data::Words(all_numbers(values)?) }
        }
        ("image", [name]) => Statement::Image(name.to_string()),
        ("event", [name]) => Statement::Event(name.to_string()),
        ("set", [name]) => Statement::Set { name: name.to_string(), dynamic: false },
        ("set", [name, "dynamic"]) => Statement::Set { name: name.to_string(), dynamic: true },
        ("write", [set, binding, parts @ ..]) if !parts.is_empty() => {
            Statement::Write { set: set.to_string(), binding: number(binding)?, parts: all_parts(parts)? }
        }
        ("copy-set", [from, from_binding, to, to_binding, count]) => Statement::CopySet {
            from: (from.to_string(), number(from_binding)?),
            to: (to.to_string(), number(to_binding)?),
            count: number(count)?,
        },
        ("reset", [name]) => Statement::Reset(name.to_string()),
        ("submit", names) if !names.is_empty() => {
            Statement::Submit { api: Api::First, names: strings(names) }
        }
        ("submit2", names) if !names.is_empty() => {
            Statement::Submit { api: Api::Second, names: strings(names) }
        }
        ("wait", []) => Statement::Wait,
        _ => bail!("no such statement outside a command buffer"),
    })
}

fn command(verb: &str, words: &[&str]) -> Result<Command> {
    let (verb, api) = match verb {
        "barrier2" | "buffer-barrier2" | "image-barrier2" | "copy2" => {
            (verb.trim_end_matches('2'), Api::Second)
        }
        _ => (verb, Api::First),
    };
    Ok(match (verb, words) {
        ("barrier", scopes) => Command::Barrier { api, subject: Subject::Memory, barrier: barrier(scopes)? },
        ("buffer-barrier", [part, scopes @ ..]) => {
            Command::Barrier { api, subject: Subject::Buffer(self::part(part)?), barrier: barrier(scopes)? }
        }
        ("image-barrier", [image, old, new, scopes @ ..]) => {
            let subject = Subject::Image(image.to_string(), layout(old)?, layout(new)?);
            Command::Barrier { api, subject, barrier: barrier(scopes)? }
        }
        ("dispatch", [kernel, rest @ ..]) => dispatch(kernel, rest)?,
        ("bind", [kernel]) => Command::Bind { kernel: kernel.to_string(), dynamic: false },
        ("bind", [kernel, "dynamic"]) => Command::Bind { kernel: kernel.to_string(), dynamic: true },
        ("use", [set, offsets @ ..]) => Command::Use { set: set.to_string(), offsets: all_numbers(offsets)? },
        ("push", [k]) => Command::Push(number(k)?),
        ("push-address", [part]) => Command::PushAddress(self::part(part)?),
        ("go", [count]) => Command::Go(Groups::Count(Some(number(count)?))),
        ("go", ["base", first, count]) => Command::Go(Groups::Base(number(first)?, number(count)?)),
        ("go", ["indirect", part]) => Command::Go(Groups::Indirect(self::part(part)?)),
        ("copy", [from, to]) => Command::Copy { api, from: part(from)?, to: part(to)? },
        ("fill", [part, word]) => Command::Fill(self::part(part)?, number(word)?),
        ("update", [part, values @ ..]) if !values.is_empty() => {
            Command::Update(self::part(part)?, all_numbers(values)?)
        }
        ("copy-to-image", [part, image]) => Command::CopyToImage(self::part(part)?, image.to_string()),
        ("copy-from-image", [image, part]) => Command::CopyFromImage(image.to_string(), self::part(part)?),
        ("set-event", [event, stages]) => Command::SetEvent(event.to_string(), self::stages(stages)?),
        ("wait-event", [event, scopes @ ..]) => Command::WaitEvent(event.to_string(), barrier(scopes)?),
        ("reset-queries", []) => Command::ResetQueries,
        ("timestamp", []) => Command::Timestamp,
        ("execute", names) if !names.is_empty() => Command::Execute(strings(names)),
        _ => bail!("no such command"),
    })
}

/// `KERNEL PART... [k N] [x COUNT | base FIRST COUNT | by PART]`.
fn dispatch(kernel: &str, words: &[&str]) -> Result<Command> {
    let mut parts = Vec::new();
    let (mut k, mut groups) = (0, Groups::Count(None));
    let mut rest = words;
    loop {
        rest = match rest {
            [] => break,
            ["k", value, rest @ ..] => {
                k = number(value)?;
                rest
            }
            ["x", count, rest @ ..] => {
                groups = Groups::Count(Some(number(count)?));
                rest
            }
            ["base", first, count, rest @ ..] => {
                groups = Groups::Base(number(first)?, number(count)?);
                rest
            }
            ["by", part, rest @ ..] => {
                groups = Groups::Indirect(self::part(part)?);
                rest
            }
            [part, rest @ ..] => {
                parts.push(self::part(part)?);
                rest
            }
        };
    }
    Ok(Command::Dispatch { kernel: kernel.to_string(), parts, groups, k })
}

/// `STAGES/ACCESSES -> STAGES/ACCESSES`, each a list joined by `+` of Vulkan's names in lower case.
fn barrier(words: &[&str]) -> Result<Barrier> {
    let [src, "->", dst] = words else { bail!("scopes are written STAGES/ACCESSES -> STAGES/ACCESSES") };
    Ok(Barrier { src: scope(src)?, dst: scope(dst)? })
}

fn scope(word: &str) -> Result<Scope> {
    let (stages, flags) = word.split_once('/').unwrap_or((word, ""));
    let mut scope = Scope { stages: self::stages(stages)?, flags: Flags::empty() };
    for name in flags.split('+').filter(|name| !name.is_empty()) {
        let flag = Flags::from_name(&name.to_uppercase());
        scope.flags |= flag.with_context(|| format!("no access is called '{name}'"))?;
    }
    Ok(scope)
}

fn stages(word: &str) -> Result<Stages> {
    let mut stages = Stages::empty();
    for name in word.split('+') {
        let stage = Stages::from_name(&name.to_uppercase());
        stages |= stage.with_context(|| format!("no stage is called '{name}'"))?;
    }
    Ok(stages)
}

fn layout(word: &str) -> Result<Layout> {
    Ok(match word {
        "undefined" => Layout::Undefined,
        "general" => Layout::General,
        "transfer_src" => Layout::TransferSrc,
        "transfer_dst" => Layout::TransferDst,
        _ => bail!("unknown layout '{word}'; there are undefined, general, transfer_src and transfer_dst"),
    })
}

fn part(word: &str) -> Result<Part> {
    let Some((buffer, range)) = word.split_once('[') else {
        return Ok(Part { buffer: word.to_string(), offset: 0, size: None });
    };
    let range = range.strip_suffix(']').and_then(|r| r.split_once(':'));
    let (offset, size) =
        range.with_context(|| format!("'{word}': a part is NAME, NAME[OFFSET:SIZE] or NAME[OFFSET:]"))?;
    let size = if size.is_empty() { None } else { Some(number(size)?) };
    Ok(Part { buffer: buffer.to_string(), offset: number(offset)?, size })
}

fn number<N: TryFrom<u64>>(word: &str) -> Result<N> {
    let value = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse::<u64>(),
    };
    let value = value.ok().and_then(|value| N::try_from(value).ok());
    value.with_context(|| format!("'{word}' is not a number that fits here"))
}

fn all_numbers(words: &[&str]) -> Result<Vec<u32>> {
    words.iter().map(|word| number(word)).collect()
}

fn all_parts(words: &[&str]) -> Result<Vec<Part>> {
    words.iter().map(|word| part(word)).collect()
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_becomes_statements_in_order() {
        let program = "
            buffer a 1024          # a comment
            begin c once
                dispatch step a b[0x40:64] k 7 by args[4:]
                barrier2 compute_shader/shader_write -> copy+draw_indirect/transfer_read
            end
            submit c
        ";
        let statements: Vec<Statement> = parse(program).unwrap().into_iter().map(|(_, s)| s).collect();
        let [
            Statement::Buffer { size: 1024, .. },
            Statement::Record(recording),
            Statement::Submit { names, .. },
        ] = statements.as_slice()
        else {
            panic!("{statements:?}")
        };
        assert_eq!(names, &["c"]);
        assert!(recording.usage.once && !recording.usage.secondary);
        let Command::Dispatch { parts, groups, k: 7, .. } = &recording.commands[0].1 else {
            panic!("{recording:?}")
        };
        assert_eq!(parts[1], Part { buffer: "b".into(), offset: 64, size: Some(64) });
        assert_eq!(*groups, Groups::Indirect(Part { buffer: "args".into(), offset: 4, size: None }));
        let Command::Barrier { api: Api::Second, barrier, .. } = &recording.commands[1].1 else { panic!() };
        assert_eq!(barrier.dst.stages, Stages::COPY | Stages::DRAW_INDIRECT);
        assert_eq!(barrier.src.flags, Flags::SHADER_WRITE);
    }

    #[test]
    fn mistakes_name_their_line_and_what_is_wrong() {
        for (program, expected) in [
            ("buffer a\n", "no such statement"),
            ("begin c\n", "no 'end'"),
            ("begin c\nbarrier compute_shader -> shade/none\nend", "no stage is called 'shade'"),
            ("begin c\nbarrier compute_shader/see -> host\nend", "no access is called 'see'"),
            ("buffer a 99999999999999999999", "not a number that fits"),
            ("begin c\ncopy a[0 b\nend", "a part is NAME"),
            ("threads\nwait\njoin", "only 'begin'"),
        ] {
            let message = format!("{:#}", parse(program).unwrap_err());
            assert!(message.contains(expected), "{program:?} gives {message:?}");
        }
        assert!(format!("{:#}", parse("wait\nnonsense").unwrap_err()).starts_with("line 2"));
    }
}
