(* Hands a lower bound, its formula and its proof to the checker of Bound.v. Numbers begin with 1
   there: a node or tensor n is n + 1. *)
open Proven
open Facts
open Plans

let id n = if n < 0 then raise (Wrong "below 0") else positive (n + 1)
let nat n = let rec more n m = if n = 0 then m else more (n - 1) (S m) in more n O

let facts steps (g : graph) =
  let maker n = if n < 0 then None else Some (id n) in
  { f_nodes = List.init steps id;
    f_before = List.rev_map (fun (w, u) -> (id u, id w)) g.edges;
    f_work = List.rev_map (fun (v, bytes) -> (id v, z bytes)) g.works;
    f_tensors = List.rev_map (fun (t : tensor) -> (id t.id, { t_bytes = z t.bytes; t_maker = maker t.maker; t_output = t.out; t_readers = List.map id t.readers })) g.tensors;
    f_pairs = List.rev_map (fun (u, t) ->
        match Hashtbl.find_opt g.by_id u with
        | Some r when r.maker >= 0 -> (id r.maker, (id u, id t))
        | _ -> raise (Wrong ("over: nobody makes " ^ string_of_int u))) g.overs;
    f_written = List.rev_map (fun (w : written) -> (id w.over, { w_bytes = z w.size; w_maker = id w.by; w_at_once = w.at_once; w_later = w.later; w_others = List.map id w.others })) g.written }

(* The variables of a formula, numbered as they come. *)
type table = { numbers : (string, positive) Hashtbl.t; mutable names : (positive * var) list }

let variable name =
  let wrong () = raise (Wrong ("no variable: " ^ String.escaped name)) in
  if name = "" then wrong ();
  match name.[0], List.map number (String.split_on_char '_' (String.sub name 1 (String.length name - 1))) with
  | 'x', [v] -> Ran (id v)
  | 'f', [a] -> Runs (id a)
  | 't', [t] -> Alive (id t)
  | 'e', [e] -> Else (id e)
  | 's', [a; r; t] -> Takes (id a, (id r, id t))
  | 'y', [j] -> Zoned (id j)
  | 'w', [u] -> Behind (id u)
  | _ -> wrong ()

let numbered t name =
  match Hashtbl.find_opt t.numbers name with
  | Some n -> n
  | None ->
    let n = positive (Hashtbl.length t.numbers + 1) in
    Hashtbl.add t.numbers name n;
    t.names <- (n, variable name) :: t.names;
    n

let literal t w =
  if w <> "" && w.[0] = '~' then (false, numbered t (String.sub w 1 (String.length w - 1))) else (true, numbered t w)

let signed w =
  let n () = number (String.sub w 1 (String.length w - 1)) in
  if w = "" then raise (Wrong "no number") else if w.[0] = '+' then n () else if w.[0] = '-' then - n () else number w

let rec objective t = function
  | [";"] -> []
  | n :: name :: rest -> let v = numbered t name in (z (signed n), v) :: objective t rest
  | _ -> raise (Wrong "the objective does not end")

let row t words =
  let rec lits = function
    | [">="; n; ";"] -> ([], number n)
    | "1" :: w :: rest -> let l = literal t w in let ls, n = lits rest in (l :: ls, n)
    | _ -> raise (Wrong ("no row: " ^ String.escaped (String.concat " " words)))
  in
  let ls, n = lits words in
  if n < 0 || n > List.length ls then raise (Wrong "a row without a solution");
  (ls, nat n)

(* A derivation, in reverse. *)
let rec derivation t ops = function
  | [";"] -> List.rev ops
  | "+" :: rest -> derivation t (Add :: ops) rest
  | "s" :: rest -> derivation t (Sat :: ops) rest
  | n :: "*" :: rest -> derivation t (Mul (z (number n)) :: ops) rest
  | n :: "d" :: rest -> derivation t (Div (z (number n)) :: ops) rest
  | w :: rest when w <> "" && w.[0] >= '0' && w.[0] <= '9' && number w > 0 -> derivation t (Push (positive (number w)) :: ops) rest
  | w :: rest -> let is, v = literal t w in derivation t (Lit (is, v) :: ops) rest
  | [] -> raise (Wrong "a derivation does not end")

let witness steps b =
  let t = { numbers = Hashtbl.create 1000; names = [] } in
  let objective, rows =
    match List.filter (function w :: _ -> w.[0] <> '*' | [] -> false) b.formula with
    | ("min:" :: first) :: rest ->
      let o = objective t first in
      for v = 0 to steps - 1 do ignore (numbered t ("x" ^ string_of_int v)) done;
      (o, List.map (row t) rest)
    | _ -> raise (Wrong "the formula does not begin with min:")
  in
  let step = function
    | "pol" :: words -> Some (Some (derivation t [] words))
    | "pbc" :: _ -> Some None
    | ["f"; n; ";"] when number n = List.length rows -> None
    | ["pseudo-Boolean"; "proof"; "version"; "3.0"] | ["qed"; ":"; "-1"; ";"] | ["output"; "NONE"; ";"] -> None
    | "conclusion" :: "BOUNDS" :: n :: ":" :: _ when number n = b.least -> None
    | words -> raise (Wrong ("in the proof: " ^ String.escaped (String.concat " " words)))
  in
  let derivations = List.filter_map step b.proof in
  { names = t.names; objective_terms = objective; formula = rows; derivations }

(* wrong STEPS EDGES FACTS BOUND: what is wrong with the bound, if those are the edges of the plan. *)
let wrong steps edges facts b =
  let edges = List.rev_map (fun (w, u) -> (id u, id w)) edges in
  let zone j (z : zone) = (id j, (List.map id z.have, List.map id z.lack)) in
  let which = if b.zones <> [] then LeavingOf (List.mapi zone b.zones) else if b.last_of_set then LastOf else FirstOf in
  let ((precedes, well), formula), proof =
    check_bound facts edges (List.map id b.set) which (z b.least) (witness steps b) in
  List.filter_map (fun (ok, what) -> if ok then None else Some what)
    [precedes, "the edges of the bound are not those of the plan, or one does not go to a later step";
     well, "the set, a zone, or a pair that is listed twice"; formula, "the formula is not that of the graph"; proof, "the proof of the bound"]
