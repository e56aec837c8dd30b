//! The pass of main.go in Rust, over libonnxmem: cargo run <four.mlir

use std::collections::{HashMap, HashSet};
use std::io::{read_to_string, stdin};
use std::time::Instant;

const ALIGNMENT: i64 = 64;

/// The size in bytes of a memref of integers or floats, such as 64x16xf32.
fn bytes(shape: &str) -> Result<i64, Box<dyn std::error::Error>> {
    let (dims, element) = shape.rsplit_once('x').unwrap_or(("1", shape));
    let mut bits: i64 = element.trim_start_matches(['b', 'f', 'i']).parse()?;
    for d in dims.split('x') {
        bits *= d.parse::<i64>()?;
    }
    Ok((bits + 7) / 8)
}

fn memref(line: &str) -> &str {
    &line[line.rfind("memref<").unwrap_or(0)..]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().len() > 1 {
        return Err("expected no arguments, and the list on standard input".into());
    }
    let text = read_to_string(stdin())?;
    let (mut lower, mut upper, mut size) = (vec![], vec![], vec![]);
    let mut of = HashMap::new(); // by value: the buffer
    let mut makes = HashMap::new(); // by line: the value and the buffer
    let mut deleted = HashSet::new(); // lines that deallocate
    for (step, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.get(2) == Some(&"memref.alloc()") {
            of.insert(words[0], size.len());
            makes.insert(step, (words[0], size.len()));
            size.push(bytes(memref(line).trim_start_matches("memref<").trim_end_matches('>'))?);
            lower.push(step as i64);
            upper.push(step as i64 + 1);
        } else if words.first() == Some(&"memref.dealloc") {
            upper[*of.get(words[1]).ok_or("a value that is not allocated")?] = step as i64;
            deleted.insert(step);
        }
    }
    let began = Instant::now();
    let (offsets, packed) = onnxmem::pack(&lower, &upper, &size, ALIGNMENT)?;
    let took = began.elapsed().as_secs_f64() * 1e3;
    eprintln!("{} buffers, arena {} bytes, none is below {}, {took:.2} ms", size.len(), packed.arena, packed.bound);
    let arena = format!("memref<{}xi8>", packed.arena);
    let mut out = String::new();
    let mut begun = false;
    for (step, line) in text.lines().enumerate() {
        if let Some((name, i)) = makes.get(&step) {
            if !begun {
                out += &format!("  %arena = memref.alloc() {{alignment = {ALIGNMENT} : i64}} : {arena}\n");
                begun = true;
            }
            out += &format!("  {name} = memref.view %arena[{}][] : {arena} to {}\n", offsets[*i], memref(line));
        } else if !deleted.contains(&step) {
            out += &format!("{line}\n");
        }
    }
    print!("{out}");
    Ok(())
}
