//! Attention from Rust: `TILEC=.. CUDA=.. cargo run --release`.
//!
//! The header that tilec makes is C; build.rs makes it and a small library of it (src/shim.c), and gpu.rs is what
//! a Rust program puts around that. One sequence of 200 tokens, 2 heads; the result is compared with the same
//! sums on the CPU.
mod gpu;

use gpu::{Args, Attention, Buffer, Context, Error, View};

const TOKENS: usize = 200;
const HEADS: usize = 2;
const DIM: usize = 64;

fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

fn from_bf16(half: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(half) << 16))
}

/// Numbers from -1 to 1.
fn random(seed: &mut u64) -> Vec<u16> {
    (0..TOKENS * HEADS * DIM)
        .map(|_| {
            *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            to_bf16((*seed >> 40) as f32 / (1 << 23) as f32 - 1.0)
        })
        .collect()
}

fn row(of: &[u16], token: usize, head: usize) -> &[u16] {
    &of[(token * HEADS + head) * DIM..][..DIM]
}

/// The largest difference of `o` from causal attention in f64.
fn worst_error(q: &[u16], k: &[u16], v: &[u16], o: &[u16]) -> f64 {
    let mut worst = 0.0;
    for head in 0..HEADS {
        for i in 0..TOKENS {
            let (mut sum, mut exact) = (0.0, [0.0; DIM]);
            for j in 0..=i {
                let product = |(a, b): (&u16, &u16)| from_bf16(*a) * from_bf16(*b);
                let score: f64 = row(q, i, head).iter().zip(row(k, j, head)).map(product).sum();
                let weight = (score / (DIM as f64).sqrt()).exp();
                sum += weight;
                exact.iter_mut().zip(row(v, j, head)).for_each(|(x, v)| *x += weight * from_bf16(*v));
            }
            for (have, want) in row(o, i, head).iter().zip(exact) {
                let error = (from_bf16(*have) - want / sum).abs();
                if error.is_nan() || error > worst {
                    worst = error;
                }
            }
        }
    }
    worst
}

fn run() -> Result<bool, Error> {
    let mut seed = 1;
    let (q, k, v) = (random(&mut seed), random(&mut seed), random(&mut seed));
    let context = Context::new()?;
    let attention = Attention::new(&context)?;
    let on = [Buffer::from(&context, &q)?, Buffer::from(&context, &k)?, Buffer::from(&context, &v)?];
    let on_o = Buffer::<u16>::new(&context, q.len())?;
    let on_l = Buffer::<f32>::new(&context, HEADS * TOKENS)?;
    let (tokens, heads, dim) = (TOKENS as i64, HEADS as i64, DIM as i64);
    let view = |data| View { data, shape: [1, tokens, heads, dim], stride: [tokens * heads * dim, heads * dim, dim, 1] };
    let mut args = Args {
        q: view(on[0].address),
        k: view(on[1].address),
        v: view(on[2].address),
        o: view(on_o.address),
        l: View { data: on_l.address, shape: [1, heads, tokens], stride: [heads * tokens, tokens, 1] },
        scale: 1.0 / (DIM as f32).sqrt(),
        softcap: 0.0,
        scratch: 0,
    };
    attention.run(args)?;
    let worst = worst_error(&q, &k, &v, &on_o.read()?);
    println!("{TOKENS} tokens, {HEADS} heads: largest error {worst:.5}");

    args.k.shape[1] -= 1; // one key more in V than in K
    match attention.run(args) {
        Ok(()) => return Ok(false),
        Err(error) => println!("refused: {error}"),
    }
    Ok(worst < 0.02) // bf16 keeps 8 bits of a value below 1, and p is rounded to it
}

fn main() {
    match run() {
        Ok(good) => std::process::exit(i32::from(!good)),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    }
}
