(* Hands a plan to the checker of Plan.v, with its buffers in the order in which they begin, and
   where each goes: which one lies below. None of that is believed. *)
open Facts
open Proven

let rec positive n = if n = 1 then XH else if n land 1 = 1 then XI (positive (n lsr 1)) else XO (positive (n lsr 1))
let z n = if n = 0 then Z0 else if n > 0 then Zpos (positive n) else Zneg (positive (-n))

module Offsets = Map.Make (Int)

(* moves BUFFERS: the moves, and the step at which most is live. *)
let moves (buffers : (Facts.buffer * Proven.buffer) list) =
  let sorted by = List.stable_sort (fun (a, _) (b, _) -> compare (by a) (by b)) buffers in
  let live = ref Offsets.empty and ending = ref (sorted (fun (b : Facts.buffer) -> b.last)) and list = ref [] in
  let load = ref 0 and most = ref 0 and at = ref 0 in
  let below o = match Offsets.find_last_opt (fun k -> k < o) !live with Some (k, _) -> z k | None -> z (-1) in
  let rec free step =
    match !ending with
    | ((b : Facts.buffer), _) :: rest when b.last < step ->
      ending := rest;
      if Offsets.mem b.offset !live then begin
        live := Offsets.remove b.offset !live;
        load := !load - b.size;
        list := Free (below b.offset, z b.offset) :: !list
      end;
      free step
    | _ -> ()
  in
  let place ((b : Facts.buffer), to_place) =
    free b.first;
    list := Place (below b.offset, to_place) :: !list;
    live := Offsets.add b.offset () !live;
    load := !load + b.size;
    if !load > !most then begin most := !load; at := b.first end
  in
  List.iter place (sorted (fun (b : Facts.buffer) -> b.first));
  (List.rev !list, !at)

(* plan STEPS GRAPH PLAN: as the checker takes it. *)
let plan steps (g : Facts.graph) (p : Facts.plan) : Proven.plan =
  let held (b : Facts.buffer) =
    let before = ref (-1) in
    List.map (fun id ->
        match Hashtbl.find_opt g.by_id id with
        | None -> raise (Wrong ("no tensor: " ^ string_of_int id))
        | Some t ->
          let over = Hashtbl.mem g.pairs (id, !before) in
          before := id;
          { ident = positive (id + 1); space = z t.bytes; start = z t.maker; reads = List.map z t.readers; out = t.out; over }) b.held
  in
  let buffer (b : Facts.buffer) = (b, { offset = z b.offset; size = z b.size; first = z b.first; last = z b.last; held = held b }) in
  let moves, at = moves (List.rev_map buffer p.buffers) in
  { steps = z steps; arena = z p.arena; peak = z p.peak; peak_step = z at;
      works = List.rev_map (fun (a, b) -> (z a, z b)) g.works; edges = List.rev_map (fun (a, b) -> (z a, z b)) g.edges;
      wanted = List.rev_map (fun (t : Facts.tensor) -> positive (t.id + 1)) g.tensors; moves }

(* wrong PLAN: what is wrong with it. *)
let wrong plan =
  let (((order, buffers), apart), peak), work = check plan in
  List.filter_map (fun (ok, what) -> if ok then None else Some what)
    [order, "order or a tensor in no buffer"; buffers, "a buffer"; apart, "an overlap"; peak, "the peak"; work, "a workspace"]
