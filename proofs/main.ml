(* Reads plans in plain text, as onnxmem verify --plain writes them, and has the checker of Plan.v
   decide. Usage: checker FILE... The exit status is 1 if a plan is wrong. *)
open Plan

let rec positive n = if n = 1 then XH else if n land 1 = 1 then XI (positive (n lsr 1)) else XO (positive (n lsr 1))
let z n = if n = 0 then Z0 else if n > 0 then Zpos (positive n) else Zneg (positive (-n))

exception Wrong of string

type reading = {
  mutable lines : int; mutable steps : int option; mutable arena : int option; mutable peak : int option; mutable ended : bool;
  mutable edges : (int * int) list; mutable wanted : int list; mutable works : (int * int) list; mutable buffers : buffer list;
  tensors : (int, int * int * bool * int list) Hashtbl.t; over : (int * int, unit) Hashtbl.t }

(* A number has at most 18 digits, and no sign; only the maker of an input is -1. *)
let number w =
  if w = "-1" then -1
  else if w <> "" && String.length w <= 18 && String.for_all (fun c -> c >= '0' && c <= '9') w then int_of_string w
  else raise (Wrong ("no number: " ^ String.escaped w))

let once what old n = if old <> None then raise (Wrong (what ^ " twice")); Some n
let given what = function Some n -> n | None -> raise (Wrong ("no " ^ what))

let line r words =
  r.lines <- r.lines + 1;
  if r.ended then raise (Wrong "a line behind end");
  match words with
  | ["onnxmem"; "plan"; "1"] when r.lines = 1 -> ()
  | _ when r.lines = 1 -> raise (Wrong "the first line is not: onnxmem plan 1")
  | ["end"] -> r.ended <- true
  | kind :: numbers ->
    let numbers = List.map number numbers in
    (match kind, numbers with
     | "tensor", id :: bytes :: start :: out :: reads when id >= 0 && bytes >= 0 && (out = 0 || out = 1) && not (List.mem (-1) reads) ->
       if Hashtbl.mem r.tensors id then raise (Wrong ("tensor twice: " ^ string_of_int id));
       Hashtbl.add r.tensors id (bytes, start, out = 1, reads);
       r.wanted <- id :: r.wanted
     | _ when List.mem (-1) numbers -> raise (Wrong ("below 0: " ^ String.concat " " words))
     | "steps", [n] -> r.steps <- once kind r.steps n
     | "arena", [n] -> r.arena <- once kind r.arena n
     | "peak", [n] -> r.peak <- once kind r.peak n
     | "edge", [w; u] -> r.edges <- (w, u) :: r.edges
     | "work", [step; bytes] -> r.works <- (step, bytes) :: r.works
     | "over", [u; t] -> Hashtbl.replace r.over (u, t) ()
     | "buffer", offset :: size :: first :: last :: held ->
       let before = ref (-1) in
       let tensor id =
         match Hashtbl.find_opt r.tensors id with
         | None -> raise (Wrong ("no tensor: " ^ string_of_int id))
         | Some (bytes, start, out, reads) ->
           let over = Hashtbl.mem r.over (id, !before) in
           before := id;
           { ident = positive (id + 1); bytes = z bytes; start = z start; reads = List.map z reads; out; over }
       in
       r.buffers <- { offset = z offset; size = z size; first = z first; last = z last; held = List.map tensor held } :: r.buffers
     | _ -> raise (Wrong ("unknown line: " ^ String.escaped (String.concat " " words))))
  | [] -> raise (Wrong "an empty line")

let read file =
  let r = { lines = 0; steps = None; arena = None; peak = None; ended = false; edges = []; wanted = []; works = []; buffers = []; tensors = Hashtbl.create 1000; over = Hashtbl.create 1000 } in
  let f = open_in file in
  (try while true do line r (List.filter (fun w -> w <> "") (String.split_on_char ' ' (input_line f))) done
   with End_of_file -> close_in f);
  if not r.ended then raise (Wrong "no end");
  { steps = z (given "steps" r.steps); arena = z (given "arena" r.arena); peak = z (given "peak" r.peak);
    works = List.rev_map (fun (a, b) -> (z a, z b)) r.works; edges = List.map (fun (a, b) -> (z a, z b)) r.edges; wanted = List.map (fun id -> positive (id + 1)) r.wanted; buffers = r.buffers }

let () =
  if Array.length Sys.argv < 2 then (prerr_endline "usage: checker FILE..."; exit 2);
  let bad = ref false in
  for i = 1 to Array.length Sys.argv - 1 do
    let file = Sys.argv.(i) in
    let says =
      try
        let ((((order, buffers), apart), peak), work) = check (read file) in
        let wrong = List.filter_map (fun (ok, what) -> if ok then None else Some what)
            [order, "order or a tensor in no buffer"; buffers, "a buffer"; apart, "an overlap"; peak, "the peak"; work, "a workspace"] in
        if wrong = [] then "right" else "wrong: " ^ String.concat ", " wrong
      with Wrong what | Sys_error what -> "wrong: " ^ what
    in
    if says <> "right" then bad := true;
    Printf.printf "%s: %s\n" file says
  done;
  if !bad then exit 1
