(* What the lines of the plain text say, before a checker has looked at it. *)

exception Wrong of string

(* Precedence, tensors, workspaces, pairs and what is written over parameters, in the order of
   the lines, backwards. *)
type tensor = { id : int; bytes : int; maker : int; out : bool; readers : int list }
type written = { over : int; size : int; by : int; at_once : bool; later : bool; others : int list }
type graph = {
  mutable edges : (int * int) list; mutable tensors : tensor list; mutable works : (int * int) list;
  mutable overs : (int * int) list; mutable written : written list; by_id : (int, tensor) Hashtbl.t; pairs : (int * int, unit) Hashtbl.t;
  seen : (string * int, unit) Hashtbl.t }

let empty () =
  { edges = []; tensors = []; works = []; overs = []; written = []; by_id = Hashtbl.create 1000; pairs = Hashtbl.create 1000; seen = Hashtbl.create 1000 }

type buffer = { offset : int; size : int; first : int; last : int; held : int list }
type plan = { arena : int; peak : int; buffers : buffer list }

(* The bound of a formula: that of the node of the set that runs first, or last, or by which the
   states leave the zones, of which each has some nodes and lacks others. *)
type zone = { have : int list; lack : int list }
type bound = { least : int; last_of_set : bool; set : int list; zones : zone list; formula : string list list; proof : string list list }

type file = { steps : int; of_plan : graph; plan : plan option; of_bound : graph; bound : bound option; unproven : string }

(* A number has at most 18 digits, and no sign; only the maker of an input is -1. *)
let number w =
  if w = "-1" then -1
  else if w <> "" && String.length w <= 18 && String.for_all (fun c -> c >= '0' && c <= '9') w then int_of_string w
  else raise (Wrong ("no number: " ^ String.escaped w))

let yes n = if n = 0 || n = 1 then n = 1 else raise (Wrong ("neither 0 nor 1: " ^ string_of_int n))

(* add TABLE KEY WHAT: what may stand once. *)
let add table key value what =
  if Hashtbl.mem table key then raise (Wrong (what ^ " twice"));
  Hashtbl.add table key value

(* fact G KIND NUMBERS: whether it is a line of a graph. *)
let fact g kind numbers =
  let natural = List.iter (fun n -> if n < 0 then raise (Wrong ("below 0: " ^ kind))) in
  (match kind, numbers with "tensor", id :: bytes :: _ :: rest -> natural (id :: bytes :: rest) | _ -> natural numbers);
  match kind, numbers with
  | "edge", [w; u] -> g.edges <- (w, u) :: g.edges; true
  | "work", [step; bytes] ->
    add g.seen (kind, step) () ("work " ^ string_of_int step);
    g.works <- (step, bytes) :: g.works;
    true
  | "tensor", id :: bytes :: maker :: out :: readers ->
    let t = { id; bytes; maker; out = yes out; readers } in
    add g.by_id id t ("tensor " ^ string_of_int id);
    g.tensors <- t :: g.tensors;
    true
  | "over", [u; t] ->
    add g.pairs (u, t) () (Printf.sprintf "over %d %d" u t);
    g.overs <- (u, t) :: g.overs;
    true
  | "written", over :: size :: by :: at_once :: later :: others ->
    add g.seen (kind, over) () ("written " ^ string_of_int over);
    g.written <- { over; size; by; at_once = yes at_once; later = yes later; others } :: g.written;
    true
  | _ -> false

(* within STEPS G: makers, readers and workspaces are of its steps, and who reads a tensor runs
   behind its maker. Precedence is left to the checkers. *)
let within steps g =
  let step what n = if n >= steps then raise (Wrong (Printf.sprintf "%s: no step %d" what n)) in
  List.iter (fun (t : tensor) ->
      let what = "tensor " ^ string_of_int t.id in
      List.iter (step what) (t.maker :: t.readers);
      if t.maker < -1 || List.exists (fun r -> r <= t.maker) t.readers then raise (Wrong (what ^ ": read before it is made"))) g.tensors;
  List.iter (fun (n, _) -> step "work" n) g.works;
  List.iter (fun (w : written) -> List.iter (step ("written " ^ string_of_int w.over)) (w.by :: w.others)) g.written

let once what old n = if old <> None then raise (Wrong (what ^ " twice")); Some n

(* read FILE: its lines, in this order: a graph, steps, a plan; another graph, if that of the
   bound is not the plan's; the bound, its formula and its proof. *)
let read name =
  let f = open_in name in
  Fun.protect ~finally:(fun () -> close_in f) @@ fun () ->
  let words () =
    match input_line f with
    | line -> List.filter (fun w -> w <> "") (String.split_on_char ' ' line)
    | exception End_of_file -> raise (Wrong "no end")
  in
  if words () <> ["onnxmem"; "plan"; "1"] then raise (Wrong "the first line is not: onnxmem plan 1");
  let until last =
    let rec more lines = let w = words () in if w = last then List.rev lines else more (w :: lines) in
    more []
  in
  let of_plan = empty () in
  let steps = ref None and arena = ref None and peak = ref None and buffers = ref [] in
  let g = ref of_plan and zones = ref [] and bound = ref None and unproven = ref "" and ended = ref false in
  while not !ended do
    match words () with
    | "zone" :: n :: steps when !bound = None && !unproven = "" ->
      let n = number n and steps = List.map number steps in
      if n < 0 || n > List.length steps || List.exists (fun s -> s < 0) steps then raise (Wrong "zone: expected a number of steps, and steps");
      zones := { have = List.filteri (fun i _ -> i < n) steps; lack = List.filteri (fun i _ -> i >= n) steps } :: !zones
    | (word :: _) as line when !zones <> [] && !bound = None && word <> "bound" -> raise (Wrong ("expected a bound behind its zones: " ^ String.escaped (String.concat " " line)))
    | ["end"] -> ended := true
    | line when !bound <> None || !unproven <> "" -> raise (Wrong ("expected end behind the bound: " ^ String.escaped (String.concat " " line)))
    | ["graph"] when !g == of_plan -> g := empty ()
    | "unproven" :: (_ :: _ as why) when !g == of_plan -> unproven := String.concat " " why
    | "bound" :: numbers ->
      (match List.map number numbers with
       | least :: last :: (_ :: _ as set) when least >= 0 && (last = 0 || !zones = []) ->
         if words () <> ["formula"] then raise (Wrong "no formula");
         let formula = until ["proof"] in
         let proof = until ["end"; "pseudo-Boolean"; "proof"; ";"] in
         bound := once "bound" !bound { least; last_of_set = yes last; set; zones = List.rev !zones; formula; proof }
       | _ -> raise (Wrong "no bound: expected bytes, 0 or 1 (0 behind zones), and nodes"))
    | [] -> raise (Wrong "an empty line")
    | kind :: words ->
      let numbers = List.map number words in
      if not (fact !g kind numbers) then
        match kind, numbers with
        | _ when !g != of_plan -> raise (Wrong ("expected the facts of a graph, found: " ^ String.escaped (String.concat " " (kind :: words))))
        | "steps", [n] -> steps := once kind !steps n
        | "arena", [n] -> arena := once kind !arena n
        | "peak", [n] -> peak := once kind !peak n
        | "buffer", offset :: size :: first :: last :: held -> buffers := { offset; size; first; last; held } :: !buffers
        | _ -> raise (Wrong ("unknown line: " ^ String.escaped (String.concat " " (kind :: words))))
  done;
  (match input_line f with _ -> raise (Wrong "a line behind end") | exception End_of_file -> ());
  let plan =
    match !arena, !peak, !buffers with
    | None, None, [] -> None
    | Some arena, Some peak, buffers -> Some { arena; peak; buffers }
    | _ -> raise (Wrong "no arena or no peak")
  in
  match !steps with
  | None -> raise (Wrong "no steps")
  | Some steps ->
    List.iter (within steps) [of_plan; !g];
    List.iter (fun z -> if List.exists (fun n -> n >= steps) (z.have @ z.lack) then raise (Wrong "zone: no such step")) !zones;
    { steps; of_plan; plan; of_bound = !g; bound = !bound; unproven = !unproven }
