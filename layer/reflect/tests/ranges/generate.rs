//! Random compute shaders in GLSL, Slang (which is HLSL here) and WGSL, with everything that index arithmetic is made of.
//!
//! Written as text and compiled by those languages' own compilers, so what is tested is what compilers emit: unoptimised,
//! with local variables and calls, or optimised, with phis. Indices are always masked or guarded somewhere, as in real
//! shaders; loops are bounded; nothing else is held back. Half of the shaders also reach memory by address: through a pointer
//! among the push constants, a number that becomes one, one of two pointers, and one that moves on in a loop.

use std::fmt::Write as _;

/// What a shader is written in. Choices mean the same in each, as far as the language has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Glsl,
    /// Slang's compiler takes the same text as HLSL.
    Slang,
    Wgsl,
}

use Language::{Glsl, Slang, Wgsl};

/// The choices that a shader is made of; runs out into zeros.
pub struct Choices<'a>(std::slice::Iter<'a, u16>);

impl<'a> Choices<'a> {
    pub fn new(choices: &'a [u16]) -> Choices<'a> {
        Choices(choices.iter())
    }

    pub fn next(&mut self, below: usize) -> usize {
        usize::from(*self.0.next().unwrap_or(&0)) % below.max(1)
    }
}

/// Words in each buffer of a generated shader.
pub const WORDS: u64 = 1 << 16;

/// Where two addresses stand in the push constants of a shader that has any, and how many bytes there are behind each.
pub const ADDRESSES: [usize; 2] = [24, 32];
pub const REACH: u64 = 1 << 16;

struct Text<'c, 'a> {
    choices: &'c mut Choices<'a>,
    language: Language,
    out: String,
    /// Unsigned variables in scope that may be assigned, and loop counters, which may not.
    variables: Vec<String>,
    counters: Vec<String>,
    names: usize,
    depth: usize,
    addresses: bool,
    matrices: bool,
}

impl Text<'_, '_> {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    /// A constant that stands alone. WGSL refuses arithmetic on constants that wraps, so there it is the result of a call.
    fn constant(&self, number: usize) -> String {
        if self.language == Wgsl { format!("k({number}u)") } else { format!("{number}u") }
    }

    fn int(&self, of: &str) -> String {
        if self.language == Wgsl { format!("i32({of})") } else { format!("int({of})") }
    }

    fn uint(&self, of: &str) -> String {
        if self.language == Wgsl { format!("u32({of})") } else { format!("uint({of})") }
    }

    /// The buffer of structures.
    fn items(&self) -> &'static str {
        if self.language == Wgsl { "h.s" } else { "s" }
    }

    /// A statement that writes a word of the first buffer.
    fn write(&self, index: &str, value: &str) -> String {
        match self.language {
            Wgsl => format!("atomicStore(&o[{index}], {value});"),
            _ => format!("o[{index}] = {value};"),
        }
    }

    /// A statement that adds 1 to a word of the first buffer.
    fn add(&self, index: &str) -> String {
        match self.language {
            Glsl => format!("atomicAdd(o[{index}], 1u);"),
            Slang => format!("InterlockedAdd(o[{index}], 1u);"),
            Wgsl => format!("atomicAdd(&o[{index}], 1u);"),
        }
    }

    /// A new variable.
    fn variable(&self, name: &str, value: &str) -> String {
        if self.language == Wgsl {
            format!("var {name}: u32 = {value};")
        } else {
            format!("uint {name} = {value};")
        }
    }

    fn atom(&mut self) -> String {
        let in_scope = self.variables.len() + self.counters.len();
        match self.choices.next(11) {
            0 => {
                let number = self.choices.next(40);
                self.constant(number)
            }
            1 => format!("p.{}", ["a", "b", "c", "d"][self.choices.next(4)]),
            2 => self.built_in("gl_GlobalInvocationID.x", "gid.x"),
            3 => self.built_in("gl_GlobalInvocationID.y", "gid.y"),
            4 => self.built_in("gl_LocalInvocationID.x", "lid.x"),
            5 => self.built_in("gl_WorkGroupID.x", "wid.x"),
            6 => self.built_in("gl_LocalInvocationIndex", "lix"),
            7 if self.language == Wgsl => self.constant(5),
            7 => "S".into(),
            _ if in_scope > 0 => {
                let index = self.choices.next(in_scope);
                self.variables.iter().chain(&self.counters).nth(index).cloned().unwrap_or_default()
            }
            _ => "p.a".into(),
        }
    }

    fn built_in(&self, glsl: &str, other: &str) -> String {
        if self.language == Glsl { glsl.into() } else { other.into() }
    }

    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 || self.choices.next(4) == 0 {
            return self.atom();
        }
        let (a, b) = (self.expression(depth - 1), self.expression(depth - 1));
        let small = 1 + self.choices.next(31);
        match self.choices.next(22) {
            0..=3 => format!("({a} + {b})"),
            4 => format!("({a} - {b})"),
            5 | 6 => format!("({a} * {small}u)"),
            7 => format!("({a} * {b})"),
            8 => format!("({a} / {small}u)"),
            9 => format!("({a} % {small}u)"),
            10 => format!("({a} / ({b} | 1u))"),
            11 => format!("({a} & {}u)", [1, 7, 15, 24, 63, 255, 6, 4094][self.choices.next(8)]),
            12 => format!("({a} | {b})"),
            13 => format!("({a} ^ {b})"),
            14 => format!("({a} >> {}u)", self.choices.next(8)),
            15 => format!("({a} << {}u)", self.choices.next(4)),
            16 => format!("min({a}, {b})"),
            17 => format!("max({a}, {b})"),
            18 => {
                let condition = self.condition(1);
                match self.language {
                    Wgsl => format!("select({b}, {a}, {condition})"),
                    _ => format!("({condition} ? {a} : {b})"),
                }
            }
            19 => format!("fastdiv({a} & 65535u)"),
            20 => self.uint(&format!("clamp({} - {}, 0, {small})", self.int(&a), self.int(&b))),
            _ => {
                let (first, count) = (self.choices.next(8), 1 + self.choices.next(8));
                match self.language {
                    Glsl => format!("bitfieldExtract({a}, {first}, {count})"),
                    Slang => format!("(({a} >> {first}u) & {}u)", (1 << count) - 1),
                    Wgsl => format!("extractBits({a}, {first}u, {count}u)"),
                }
            }
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        let (a, b) = (self.expression(1), self.expression(1));
        let comparison = match self.choices.next(8) {
            0 => format!("{a} < {b}"),
            1 => format!("{a} <= {b}"),
            2 => format!("{a} > {b}"),
            3 => format!("{a} >= {b}"),
            4 => format!("{a} == {b}"),
            5 => format!("{a} != {b}"),
            6 => format!("{} < {}", self.int(&a), self.int(&b)),
            _ => format!("{a} < {}u", 1 + self.choices.next(200)),
        };
        if depth == 0 || self.choices.next(3) != 0 {
            return comparison;
        }
        let other = self.condition(depth - 1);
        match self.choices.next(3) {
            0 => format!("({comparison} && {other})"),
            1 => format!("({comparison} || {other})"),
            _ => format!("!({comparison})"),
        }
    }

    fn by_address(&mut self) {
        let (index, value) = (self.expression(2), self.atom());
        let (small, name) = (1 + self.choices.next(3000), self.name());
        match self.choices.next(9) {
            0 => writeln!(self.out, "p.r.v[({index}) & 8191u] = {value};"),
            1 => writeln!(self.out, "t += p.r.v[min({index}, {small}u)];"),
            2 => writeln!(self.out, "{{ uint k = {index}; if (k < {small}u) p.r.v[k] = {value}; }}"),
            3 => writeln!(
                self.out,
                "R(p.raw + uint64_t(({index}) & 1023u) * 4ul).v[({value}) % {small}u] = 1u;"
            ),
            4 => writeln!(self.out, "t += Q(p.raw).s[({index}) % 50u].v.y;"),
            5 => {
                let condition = self.condition(0);
                writeln!(
                    self.out,
                    "{{ R q = p.r; if ({condition}) q = R(p.raw); q.v[({index}) % {small}u] = {value}; }}"
                )
            }
            6 => {
                let count = 1 + self.choices.next(12);
                writeln!(
                    self.out,
                    "{{ R q{name} = R(p.raw); for (uint {name} = 0u; {name} < {count}u; ++{name}) {{ t += q{name}.v[({value}) & 7u]; \
                     q{name} = R(uint64_t(q{name}) + 16ul); }} }}"
                )
            }
            7 => writeln!(self.out, "atomicAdd(p.r.v[({index}) % {small}u], 1u);"),
            _ => writeln!(self.out, "put(p.r, ({index}) % {small}u, {value});"),
        }
        .unwrap_or_default();
    }

    fn access(&mut self) {
        if self.addresses && self.choices.next(2) == 0 {
            return self.by_address();
        }
        let index = self.expression(2);
        let value = self.atom();
        if self.matrices && self.choices.next(4) == 0 {
            return self.matrix(&index, &value);
        }
        let items = self.items();
        let line = match self.choices.next(6) {
            0 => {
                let limit = self.choices.next(4000);
                format!(
                    "{{ {} if (m < {limit}u) {{ {} }} }}",
                    self.variable("m", &index),
                    self.write("m", &value)
                )
            }
            1 => self.write(&format!("({index}) & 16383u"), &value),
            2 => format!("{items}[min({index}, 100u)].v.y = {value};"),
            3 => format!("t += {};", self.uint(&format!("{items}[({index}) % 50u].n[({value}) & 3u]"))),
            4 => {
                let count = 1 + self.choices.next(3000);
                self.add(&format!("({index}) % {count}u"))
            }
            _ => format!("t += i[min({index}, 9999u)];"),
        };
        let _ = writeln!(self.out, "{line}");
    }

    /// An access to a matrix, whole or in part, in a block where one array lies by columns and one by rows.
    fn matrix(&mut self, index: &str, value: &str) {
        let other = self.atom();
        let (by_columns, by_rows) = match self.language {
            Slang => (format!("mm[({index}) % 40u].c"), format!("mm[({index}) & 255u].r")),
            _ => (format!("mm.c[({index}) % 40u]"), format!("mm.r[({index}) & 255u]")),
        };
        // Slang's have three rows and two columns, the others' two rows and three columns: the first index is the longer.
        let of = if self.choices.next(2) == 0 { by_columns } else { by_rows };
        let part = format!("{of}[({value}) % 3u][({other}) & 1u]");
        let line = match self.choices.next(4) {
            0 => format!("{part} = 1.0;"),
            1 => format!("t += {};", self.uint(&part)),
            2 => {
                let zero = match self.language {
                    Glsl => "vec2(0.0)",
                    Slang => "float2(0.0, 0.0)",
                    Wgsl => "vec2<f32>()",
                };
                format!("{of}[({value}) % 3u] = {zero};")
            }
            _ => {
                let zero = match self.language {
                    Glsl => "mat3x2(1.0)",
                    Slang => "float3x2(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)",
                    Wgsl => "mat3x2<f32>()",
                };
                format!("{of} = {zero};")
            }
        };
        let _ = writeln!(self.out, "{line}");
    }

    fn block(&mut self) {
        let (variables, counters) = (self.variables.len(), self.counters.len());
        for _ in 0..1 + self.choices.next(4) {
            self.statement();
        }
        self.variables.truncate(variables);
        self.counters.truncate(counters);
    }

    fn statement(&mut self) {
        let kind = if self.depth >= 3 { self.choices.next(5) } else { self.choices.next(12) };
        match kind {
            0 | 1 => self.access(),
            2 | 3 => {
                let (name, value) = (self.name(), self.expression(2));
                let line = self.variable(&name, &value);
                let _ = writeln!(self.out, "{line}");
                self.variables.push(name);
            }
            4 | 5 => match self.variables.len() {
                0 => self.access(),
                count => {
                    let index = self.choices.next(count);
                    let (name, value) = (self.variables[index].clone(), self.expression(2));
                    let _ = match self.choices.next(3) {
                        0 => writeln!(self.out, "{name} = {value};"),
                        1 => writeln!(self.out, "{name} += {value};"),
                        _ if self.language == Wgsl => writeln!(self.out, "bump(&{name}, {value});"),
                        _ => writeln!(self.out, "bump({name}, {value});"),
                    };
                }
            },
            6 | 7 => {
                let condition = self.condition(1);
                let _ = writeln!(self.out, "if ({condition}) {{");
                self.nested();
                if self.choices.next(2) == 0 {
                    let _ = writeln!(self.out, "}} else {{");
                    self.nested();
                }
                let _ = writeln!(self.out, "}}");
            }
            8 | 9 => {
                let (name, first, last) = (self.name(), self.atom(), self.atom());
                let step = 1 + self.choices.next(5);
                let (limit, count) = (1 + self.choices.next(12), self.choices.next(20));
                let (kind, wgsl) = (self.choices.next(4), self.language == Wgsl);
                let (uint, int, let_uint) = match wgsl {
                    true => (format!("var {name}: u32"), format!("var j{name}: i32"), format!("let {name}")),
                    false => (format!("uint {name}"), format!("int j{name}"), format!("uint {name}")),
                };
                let back = self.uint(&format!("j{name}"));
                let _ = match kind {
                    0 => writeln!(
                        self.out,
                        "for ({uint} = {first} & 255u; {name} < min({last}, {}u); {name} += {step}u) {{",
                        step * limit
                    ),
                    1 => writeln!(
                        self.out,
                        "for ({int} = {count}; j{name} >= 0; j{name} -= {step}) {{ {let_uint} = {back};"
                    ),
                    2 => {
                        writeln!(
                            self.out,
                            "for ({uint} = {}u; {name} > 0u; {name} >>= 1{}) {{",
                            count * 8,
                            if wgsl { "u" } else { "" }
                        )
                    }
                    _ => writeln!(
                        self.out,
                        "for ({uint} = 0u; {name} < {limit}u; {name} += 1u) {{ if ({name} * {step}u > {last}) {{ break; }}"
                    ),
                };
                self.counters.push(name);
                self.nested();
                self.counters.pop();
                let _ = writeln!(self.out, "}}");
            }
            10 => {
                let condition = self.condition(1);
                let _ = writeln!(self.out, "if ({condition}) {{ return; }}");
            }
            _ => {
                let selector = self.expression(1);
                let (to, ends) = match self.language {
                    Wgsl => (": {", "}"),
                    _ => (": {", "} break;"),
                };
                let _ = writeln!(self.out, "switch (({selector}) & 3u) {{ case 0u{to}");
                self.nested();
                let _ = writeln!(self.out, "{ends} case 2u{to}");
                self.nested();
                let _ = writeln!(self.out, "{ends} default{to}");
                self.nested();
                let _ = writeln!(self.out, "{ends} }}");
            }
        }
    }

    fn nested(&mut self) {
        self.depth += 1;
        self.block();
        self.depth -= 1;
    }
}

/// What a shader has more that reaches memory by address: extensions, blocks, push constants and a function.
const BY_ADDRESS: [&str; 4] = [
    "#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
",
    "layout(buffer_reference, std430, buffer_reference_align = 4) buffer R { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Q { uint t0; Item s[]; };
",
    "R r; uint64_t raw; ",
    "void put(R where, uint at, uint what) { if (what > 9u) where.v[at] = what; else where.v[0] = 1u; }
",
];

/// A block in which one array of matrices lies by columns and one by rows.
const MATRICES: &str =
    "layout(std430, set = 1, binding = 3) buffer M { mat3x2 c[40]; layout(row_major) mat3x2 r[]; } mm;
";

/// A shader, as GLSL, with accesses by address or without.
pub fn shader(choices: &mut Choices<'_>, addresses: bool) -> String {
    shader_in(Glsl, choices, addresses)
}

/// A shader in one of the languages; only GLSL has accesses by address.
pub fn shader_in(language: Language, choices: &mut Choices<'_>, addresses: bool) -> String {
    let (x, y) = ([1, 8, 16, 32][choices.next(4)], [1, 1, 2, 4][choices.next(4)]);
    let (out, variables, counters) = (String::new(), Vec::new(), Vec::new());
    let (addresses, matrices) = (addresses && language == Glsl, choices.next(2) == 0);
    let mut text =
        Text { choices, language, out, variables, counters, names: 0, depth: 0, addresses, matrices };
    for _ in 0..3 + text.choices.next(5) {
        text.statement();
    }
    text.access();
    let body = text.out;
    match language {
        Glsl => glsl(x, y, &body, addresses),
        Slang => slang(x, y, &body),
        Wgsl => wgsl(x, y, &body),
    }
}

fn glsl(x: u32, y: u32, body: &str, addresses: bool) -> String {
    let [extensions, places, more, put] = if addresses { BY_ADDRESS } else { [""; 4] };
    let matrices = if body.contains("mm.") { MATRICES } else { "" };
    format!(
        "#version 450
{extensions}layout(local_size_x = {x}, local_size_y = {y}) in;
layout(constant_id = 3) const uint S = 5;
struct Item {{ uint n[4]; uvec3 v; }};
layout(std430, binding = 0) buffer O {{ uint o[]; }};
layout(std430, binding = 1) readonly buffer I {{ uint i[]; }};
layout(std430, set = 1, binding = 2) buffer T {{ uint t0; Item s[]; }};
{matrices}{places}layout(push_constant) uniform P {{ uint a; uint b; uint c; uint d; uint magic; uint shift; {more}}} p;
{put}uint fastdiv(uint n) {{ uint high, low; umulExtended(n, p.magic, high, low); return (high + n) >> p.shift; }}
void bump(inout uint x, uint by) {{ if (by > 100u) return; x += by * 2u; }}
void main() {{
uint t = 0u;
{body}
if (t == 0x12345u) t0 = t;
}}
"
    )
}

fn slang(x: u32, y: u32, body: &str) -> String {
    format!(
        "struct Item {{ uint n[4]; uint3 v; }};
struct P {{ uint a; uint b; uint c; uint d; uint magic; uint shift; }};
[[vk::push_constant]] ConstantBuffer<P> p;
[[vk::constant_id(3)]] const uint S = 5;
[[vk::binding(0, 0)]] RWStructuredBuffer<uint> o;
[[vk::binding(1, 0)]] StructuredBuffer<uint> i;
[[vk::binding(2, 1)]] RWStructuredBuffer<Item> s;
struct M {{ column_major float3x2 c; row_major float3x2 r; }};
[[vk::binding(3, 1)]] RWStructuredBuffer<M> mm;
uint fastdiv(uint n) {{ uint high = uint((uint64_t(n) * uint64_t(p.magic)) >> 32); return (high + n) >> p.shift; }}
void bump(inout uint x, uint by) {{ if (by > 100u) return; x += by * 2u; }}
[shader(\"compute\")] [numthreads({x}, {y}, 1)]
void main(uint3 gid : SV_DispatchThreadID, uint3 lid : SV_GroupThreadID, uint3 wid : SV_GroupID, uint lix : SV_GroupIndex) {{
uint t = 0u;
{body}
if (t == 0x12345u) s[0].n[0] = t;
}}
"
    )
}

fn wgsl(x: u32, y: u32, body: &str) -> String {
    format!(
        "struct Item {{ n: array<u32, 4>, v: vec3<u32> }}
struct H {{ t0: u32, s: array<Item> }}
struct P {{ a: u32, b: u32, c: u32, d: u32, magic: u32, shift: u32 }}
@group(0) @binding(0) var<storage, read_write> o: array<atomic<u32>>;
@group(0) @binding(1) var<storage, read> i: array<u32>;
@group(1) @binding(2) var<storage, read_write> h: H;
struct M {{ c: array<mat3x2<f32>, 40>, r: array<mat3x2<f32>> }}
@group(1) @binding(3) var<storage, read_write> mm: M;
var<immediate> p: P;
fn k(x: u32) -> u32 {{ return x; }}
fn fastdiv(n: u32) -> u32 {{ return n / max(p.magic >> 20u, 1u); }}
fn bump(x: ptr<function, u32>, by: u32) {{ if (by > 100u) {{ return; }} *x += by * 2u; }}
@compute @workgroup_size({x}, {y}, 1)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(local_invocation_id) lid: vec3<u32>,
        @builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lix: u32) {{
var t: u32 = 0u;
{body}
if (t == 0x12345u) {{ h.t0 = t; }}
}}
"
    )
}

/// Magic number and shift of the division by `divisor`, as applications compute them.
pub fn division(divisor: u32) -> (u32, u32) {
    let shift = (0..32).find(|shift| 1u64 << shift >= u64::from(divisor)).unwrap_or(0);
    let magic = ((1u64 << 32) * ((1u64 << shift) - u64::from(divisor))) / u64::from(divisor) + 1;
    (magic as u32, shift)
}
