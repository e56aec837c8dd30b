(* Reads plans in plain text, as onnxmem verify --plain writes them, and has the checker of Plan.v
   decide. Usage: checker FILE... The exit status is 1 if a plan is wrong. *)
open Plan

let rec positive n = if n = 1 then XH else if n land 1 = 1 then XI (positive (n lsr 1)) else XO (positive (n lsr 1))
let z n = if n = 0 then Z0 else if n > 0 then Zpos (positive n) else Zneg (positive (-n))

exception Wrong of string

type reading = {
  mutable steps : int; mutable arena : int; mutable peak : int; mutable ended : bool;
  mutable edges : (int * int) list; mutable wanted : int list; mutable buffers : buffer list;
  tensors : (int, int * bool * int list) Hashtbl.t; over : (int * int, unit) Hashtbl.t }

let line r words =
  match words with
  | ["onnxmem"; "plan"; "1"] -> ()
  | ["end"] -> r.ended <- true
  | kind :: numbers ->
    let numbers = List.map (fun w -> match int_of_string_opt w with Some n -> n | None -> raise (Wrong ("no number: " ^ w))) numbers in
    (match kind, numbers with
     | "steps", [n] -> r.steps <- n
     | "arena", [n] -> r.arena <- n
     | "peak", [n] -> r.peak <- n
     | "edge", [w; u] -> r.edges <- (w, u) :: r.edges
     | "tensor", id :: _ when id < 0 -> raise (Wrong ("tensor below 0: " ^ string_of_int id))
     | "tensor", id :: start :: out :: reads ->
       if Hashtbl.mem r.tensors id then raise (Wrong ("tensor twice: " ^ string_of_int id));
       Hashtbl.add r.tensors id (start, out = 1, reads);
       r.wanted <- id :: r.wanted
     | "over", [u; t] -> Hashtbl.replace r.over (u, t) ()
     | "buffer", offset :: size :: first :: last :: held ->
       let before = ref (-1) in
       let tensor id =
         match Hashtbl.find_opt r.tensors id with
         | None -> raise (Wrong ("no tensor: " ^ string_of_int id))
         | Some (start, out, reads) ->
           let over = Hashtbl.mem r.over (id, !before) in
           before := id;
           { ident = positive (id + 1); start = z start; reads = List.map z reads; out; over }
       in
       r.buffers <- { offset = z offset; size = z size; first = z first; last = z last; held = List.map tensor held } :: r.buffers
     | _ -> raise (Wrong ("unknown line: " ^ String.concat " " words)))
  | [] -> ()

let read file =
  let r = { steps = 0; arena = 0; peak = 0; ended = false; edges = []; wanted = []; buffers = []; tensors = Hashtbl.create 1000; over = Hashtbl.create 1000 } in
  let f = open_in file in
  (try while true do line r (List.filter (fun w -> w <> "") (String.split_on_char ' ' (input_line f))) done
   with End_of_file -> close_in f);
  if not r.ended then raise (Wrong "no end");
  { steps = z r.steps; arena = z r.arena; peak = z r.peak; edges = List.map (fun (a, b) -> (z a, z b)) r.edges; wanted = List.map (fun id -> positive (id + 1)) r.wanted; buffers = r.buffers }

let () =
  let bad = ref false in
  for i = 1 to Array.length Sys.argv - 1 do
    let file = Sys.argv.(i) in
    let says =
      try
        let (((order, buffers), apart), peak) = check (read file) in
        let wrong = List.filter_map (fun (ok, what) -> if ok then None else Some what)
            [order, "order or a tensor in no buffer"; buffers, "a buffer"; apart, "an overlap"; peak, "the peak"] in
        if wrong = [] then "right" else "wrong: " ^ String.concat ", " wrong
      with Wrong what | Sys_error what -> "wrong: " ^ what
    in
    if says <> "right" then bad := true;
    Printf.printf "%s: %s\n" file says
  done;
  if !bad then exit 1
