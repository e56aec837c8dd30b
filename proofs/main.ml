(* Reads plans in plain text, as onnxmem verify --plain writes them, and has the checkers of Plan.v,
   Bound.v and Join.v decide. Usage: checker FILE... The exit status is 1 if a plan or a bound is wrong. *)
open Facts

let said f =
  let another = f.of_bound != f.of_plan in
  let plan = Option.map (Plans.plan f.steps f.of_plan) f.plan and facts = Bounds.facts f.steps f.of_bound in
  let wrong = match plan with Some p -> Plans.wrong p | None -> [] in
  let unbound = match f.bound with Some b -> Bounds.wrong f.steps f.of_plan.edges facts b | None -> [] in
  let apart = match plan with Some p when not another && not (Proven.joined p facts) -> ["a tensor that lies twice, or a parameter that is written over before its last reader"] | _ -> [] in
  let above = match f.plan, f.bound with Some p, Some b when b.least > p.peak -> ["a bound above the peak"] | _ -> [] in
  match wrong @ unbound @ apart @ above with
  | _ :: _ as list -> "wrong: " ^ String.concat ", " list
  | [] ->
    "right" ^
    (match f.plan, f.bound with
     | None, None -> raise (Wrong "neither a plan nor a bound")
     | None, _ when another -> raise (Wrong "a graph of its own, and no plan")
     | _, None -> "; no bound is proven" ^ if f.unproven = "" then "" else ": " ^ f.unproven
     | _, Some b when another -> Printf.sprintf "; no order of another graph, with the same edges, has a peak below %d" b.least
     | Some p, Some b when b.least = p.peak -> Printf.sprintf "; no order has a peak below %d, which is that of the plan" b.least
     | _, Some b -> Printf.sprintf "; no order has a peak below %d" b.least)

(* Whatever fails, the file is wrong, and the others are read. *)
let verdict file =
  match said (read file) with
  | says -> says
  | exception (Wrong what | Sys_error what) -> "wrong: " ^ what
  | exception Stack_overflow -> "wrong: the stack is too small for it (ulimit -s)"
  | exception e -> "wrong: " ^ Printexc.to_string e

let () =
  if Array.length Sys.argv < 2 then (prerr_endline "usage: checker FILE..."; exit 2);
  let bad = ref false in
  for i = 1 to Array.length Sys.argv - 1 do
    let file = Sys.argv.(i) in
    let says = verdict file in
    if String.length says >= 5 && String.sub says 0 5 = "wrong" then bad := true;
    Printf.printf "%s: %s\n" file says
  done;
  if !bad then exit 1
