//! Cases of the kernels that only some architectures need.

use zinc_shaders as k;

use super::cases::{Maker, SIGN, U, norm_error, some};
use super::{Case, Input, input};
use crate::model::{Activation, Pairing};
use crate::reference;

const COUNTS: [u32; 6] = [576, 1, 31, 64, 65, 4099];

pub(super) fn add(maker: &mut Maker, cases: &mut Vec<Case>) {
    cases.extend(COUNTS.map(|count| maker.gelu(count)));
    cases.extend(COUNTS.map(|count| maker.scale(count)));
    cases.extend(COUNTS.map(|count| maker.stream(count)));
    cases.extend(COUNTS.map(|count| maker.softcap(count)));
    let heads = [(6, 32), (1, 4), (3, 20), (16, 128), (4, 256), (33, 64)];
    cases.extend(heads.map(|(rows, width)| maker.rms_norm_rows(rows, width)));
    for build in [k::rowwise::Build::MUL_ROWS, k::rowwise::Build::ADD_ROWS] {
        cases.extend(heads.map(|(rows, width)| maker.with_every_row(build, rows, width)));
    }
    let ropes = [
        (6, 32, 32, 255),
        (1, 4, 4, 0),
        (3, 8, 4, 1),
        (2, 32, 32, 1023),
        (16, 128, 128, 77),
        (5, 80, 20, 31),
    ];
    cases.extend(ropes.map(|shape| maker.rope(Pairing::Halves, 1e6, shape)));
}

impl Maker {
    fn gelu(&mut self, count: u32) -> Case {
        let x: Vec<f32> = self.floats(count as usize).iter().map(|v| v * 12.0).collect();
        self.activation(Activation::Gelu, &x, |x| {
            let y = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            let exact = x / (1.0 + (-2.0 * y).exp());
            // The argument of exp has eight roundings, which the exponential turns into relative errors of 8 |2y| u; exp
            // itself (3 + 2|2y| ULP), addition, division (2.5 ULP).
            let argument = (2.0 * y).abs();
            let relative = 8.0 * argument + 2.0 * (3.0 + 2.0 * argument) + 1.0 + 5.0;
            // Deep in the tail the exponential overflows and the quotient is zero, or results are subnormal and may be
            // flushed to zero. A device may also divide by multiplying with a reciprocal, and flush that when it is
            // subnormal, as it is from 2^126 on: Vulkan bounds the error of a quotient for smaller divisors only ("Precision
            // of core SPIR-V instructions", OpFDiv). An NVIDIA H200 does. So the floor is absolute, |x| times the
            // smallest normal number.
            let tail = (x.abs() + 1.0) * f64::from(f32::MIN_POSITIVE);
            some(exact, relative * U * exact.abs() + tail)
        })
    }

    /// Sums of every n-th vector for n invocations.
    fn stream(&mut self, count: u32) -> Case {
        let x = self.floats(4 * count as usize);
        let workgroup = self.tuning.element;
        let n = (count.div_ceil(16 * workgroup) * workgroup) as usize;
        let expected = (0..n).map(|i| {
            let own = x.chunks_exact(4).skip(i).step_by(n).take(16).flatten();
            let (sum, size) =
                own.fold((0.0, 0.0), |(sum, size), v| (sum + f64::from(*v), size + f64::from(v.abs())));
            some(sum, 70.0 * U * size)
        });
        let bindings = k::stream::Bindings { x: input(&x).flipped(SIGN), result: Input::Result };
        self.elements(format!("count={count}"), (), k::stream::Push { count }, bindings, expected.collect())
    }

    fn scale(&mut self, count: u32) -> Case {
        let x = self.floats(count as usize);
        let factor = 25.298_22f32;
        let value = |x: &f32| {
            let exact = f64::from(*x) * f64::from(factor);
            some(exact, 2.0 * U * exact.abs())
        };
        let bindings = k::scale::Bindings { x: input(&x).flipped(SIGN), result: Input::Result };
        let (push, expected) = (k::scale::Push { count, factor }, x.iter().map(value).collect());
        self.elements(format!("count={count}"), (), push, bindings, expected)
    }

    fn softcap(&mut self, count: u32) -> Case {
        let x: Vec<f32> = self.floats(count as usize).iter().map(|v| v * 300.0).collect();
        let cap = 30f32;
        let value = |x: &f32| {
            let (x, cap) = (f64::from(*x), f64::from(cap));
            let exact = cap * (x / cap).tanh();
            // e = exp(-a) with a relative error of (6 a + 6 + 4 a) u at most; 1 - e and 1 + e; division, product.
            let a = 2.0 * x.abs() / cap;
            let e = (-a).exp();
            let absolute = e * (10.0 * a + 6.0) + 2.0;
            some(exact, U * (cap * absolute * 2.0 + 12.0 * exact.abs()))
        };
        let bindings = k::softcap::Bindings { x: input(&x).flipped(SIGN), result: Input::Result };
        let (push, expected) = (k::softcap::Push { count, cap }, x.iter().map(value).collect());
        self.elements(format!("count={count}"), (), push, bindings, expected)
    }

    fn rms_norm_rows(&mut self, rows: u32, width: u32) -> Case {
        let (x, epsilon) = (self.floats((rows * width) as usize), 1e-6f32);
        let relative = norm_error(width, self.tuning.reduce);
        let expected = x.chunks_exact(width as usize).flat_map(|row| {
            let mean = reference::dot(row, row) / f64::from(width);
            let scale = 1.0 / (mean + f64::from(epsilon)).sqrt();
            row.iter().map(move |v| {
                let exact = f64::from(*v) * scale;
                some(exact, relative * U * exact.abs())
            })
        });
        let bindings = k::rms_norm_rows::Bindings { x: input(&x).flipped(SIGN), result: Input::Result };
        let push = k::rms_norm_rows::Push { width, epsilon };
        self.reduce(format!("rows={rows} width={width}"), rows, push, bindings, expected.collect())
    }

    /// Each row of a matrix with one vector, element by element.
    fn with_every_row(&mut self, build: k::rowwise::Build, rows: u32, width: u32) -> Case {
        let count = rows * width;
        let (a, b) = (self.floats(count as usize), self.floats(width as usize));
        let value = |(a, b): (&f32, &f32)| {
            let (a, b) = (f64::from(*a), f64::from(*b));
            let exact = if build == k::rowwise::Build::ADD_ROWS { a + b } else { a * b };
            some(exact, 2.0 * U * exact.abs())
        };
        let expected = a.iter().zip(b.iter().cycle()).map(value).collect();
        let bindings =
            k::rowwise::Bindings { a: input(&a), b: input(&b).flipped(SIGN), result: Input::Result };
        let push = k::rowwise::Push { count, width };
        self.elements(format!("rows={rows} width={width}"), build, push, bindings, expected)
    }
}
