//! Random compute shaders in GLSL, with everything that index arithmetic is made of.
//!
//! Written as text and compiled by glslangValidator, so what is tested is what compilers emit: unoptimised, with local
//! variables and calls, or after `spirv-opt -O`, with phis. Indices are always masked or guarded somewhere, as in real
//! shaders; loops are bounded; nothing else is held back. Half of the shaders also reach memory by address: through a pointer
//! among the push constants, a number that becomes one, one of two pointers, and one that moves on in a loop.

use std::fmt::Write as _;

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
    out: String,
    /// Unsigned variables in scope that may be assigned, and loop counters, which may not.
    variables: Vec<String>,
    counters: Vec<String>,
    names: usize,
    depth: usize,
    addresses: bool,
}

impl Text<'_, '_> {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    fn atom(&mut self) -> String {
        let in_scope = self.variables.len() + self.counters.len();
        match self.choices.next(11) {
            0 => format!("{}u", self.choices.next(40)),
            1 => format!("p.{}", ["a", "b", "c", "d"][self.choices.next(4)]),
            2 => "gl_GlobalInvocationID.x".into(),
            3 => "gl_GlobalInvocationID.y".into(),
            4 => "gl_LocalInvocationID.x".into(),
            5 => "gl_WorkGroupID.x".into(),
            6 => "gl_LocalInvocationIndex".into(),
            7 => "S".into(),
            _ if in_scope > 0 => {
                let index = self.choices.next(in_scope);
                self.variables.iter().chain(&self.counters).nth(index).cloned().unwrap_or_default()
            }
            _ => "p.a".into(),
        }
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
                format!("({condition} ? {a} : {b})")
            }
            19 => format!("fastdiv({a} & 65535u)"),
            20 => format!("uint(clamp(int({a}) - int({b}), 0, {small}))"),
            _ => format!("bitfieldExtract({a}, {}, {})", self.choices.next(8), 1 + self.choices.next(8)),
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
            6 => format!("int({a}) < int({b})"),
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
        match self.choices.next(6) {
            0 => writeln!(
                self.out,
                "{{ uint k = {index}; if (k < {}u) o[k] = {value}; }}",
                self.choices.next(4000)
            ),
            1 => writeln!(self.out, "o[({index}) & 16383u] = {value};"),
            2 => writeln!(self.out, "s[min({index}, 100u)].v.y = {value};"),
            3 => writeln!(self.out, "t += uint(s[({index}) % 50u].n[({value}) & 3u]);"),
            4 => writeln!(self.out, "atomicAdd(o[({index}) % {}u], 1u);", 1 + self.choices.next(3000)),
            _ => writeln!(self.out, "t += i[min({index}, 9999u)];"),
        }
        .unwrap_or_default();
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
                let _ = writeln!(self.out, "uint {name} = {value};");
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
                let _ = match self.choices.next(4) {
                    0 => writeln!(
                        self.out,
                        "for (uint {name} = {first} & 255u; {name} < min({last}, {}u); {name} += {step}u) {{",
                        step * limit
                    ),
                    1 => writeln!(
                        self.out,
                        "for (int j{name} = {count}; j{name} >= 0; j{name} -= {step}) {{ uint {name} = uint(j{name});"
                    ),
                    2 => {
                        writeln!(self.out, "for (uint {name} = {}u; {name} > 0u; {name} >>= 1) {{", count * 8)
                    }
                    _ => writeln!(
                        self.out,
                        "for (uint {name} = 0u; {name} < {limit}u; ++{name}) {{ if ({name} * {step}u > {last}) break;"
                    ),
                };
                self.counters.push(name);
                self.nested();
                self.counters.pop();
                let _ = writeln!(self.out, "}}");
            }
            10 => {
                let condition = self.condition(1);
                let _ = writeln!(self.out, "if ({condition}) return;");
            }
            _ => {
                let selector = self.expression(1);
                let _ = writeln!(self.out, "switch (({selector}) & 3u) {{ case 0u:");
                self.nested();
                let _ = writeln!(self.out, "break; case 2u:");
                self.nested();
                let _ = writeln!(self.out, "break; default:");
                self.nested();
                let _ = writeln!(self.out, "}}");
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

/// A shader, as GLSL, with accesses by address or without.
pub fn shader(choices: &mut Choices<'_>, addresses: bool) -> String {
    let (x, y) = ([1, 8, 16, 32][choices.next(4)], [1, 1, 2, 4][choices.next(4)]);
    let (out, variables, counters) = (String::new(), Vec::new(), Vec::new());
    let mut text = Text { choices, out, variables, counters, names: 0, depth: 0, addresses };
    for _ in 0..3 + text.choices.next(5) {
        text.statement();
    }
    text.access();
    let [extensions, places, more, put] = if addresses { BY_ADDRESS } else { [""; 4] };
    format!(
        "#version 450
{extensions}layout(local_size_x = {x}, local_size_y = {y}) in;
layout(constant_id = 3) const uint S = 5;
struct Item {{ uint n[4]; uvec3 v; }};
layout(std430, binding = 0) buffer O {{ uint o[]; }};
layout(std430, binding = 1) readonly buffer I {{ uint i[]; }};
layout(std430, set = 1, binding = 2) buffer T {{ uint t0; Item s[]; }};
{places}layout(push_constant) uniform P {{ uint a; uint b; uint c; uint d; uint magic; uint shift; {more}}} p;
{put}uint fastdiv(uint n) {{ uint high, low; umulExtended(n, p.magic, high, low); return (high + n) >> p.shift; }}
void bump(inout uint x, uint by) {{ if (by > 100u) return; x += by * 2u; }}
void main() {{
uint t = 0u;
{}
if (t == 0x12345u) t0 = t;
}}
",
        text.out
    )
}

/// Magic number and shift of the division by `divisor`, as applications compute them.
pub fn division(divisor: u32) -> (u32, u32) {
    let shift = (0..32).find(|shift| 1u64 << shift >= u64::from(divisor)).unwrap_or(0);
    let magic = ((1u64 << 32) * ((1u64 << shift) - u64::from(divisor))) / u64::from(divisor) + 1;
    (magic as u32, shift)
}
