(* Reads plans in plain text, as onnxmem verify --plain writes them, and has the checkers of Plan.v
   and Bound.v decide. Usage: checker FILE... The exit status is 1 if a plan or a bound is wrong. *)
open Facts

let said f =
  let wrong = match f.plan with Some p -> Plans.wrong f.steps f.of_plan p | None -> [] in
  let unbound = match f.bound with Some b -> Bounds.wrong f.steps f.of_bound b | None -> [] in
  match wrong @ unbound with
  | _ :: _ as list -> "wrong: " ^ String.concat ", " list
  | [] ->
    "right" ^
    (match f.plan, f.bound with
     | None, None -> raise (Wrong "neither a plan nor a bound")
     | _, None -> "; no bound is proven" ^ if f.unproven = "" then "" else ": " ^ f.unproven
     | Some p, Some b when f.of_bound == f.of_plan && b.least = p.peak -> Printf.sprintf "; no order has a peak below %d, which is that of the plan" b.least
     | _, Some b -> Printf.sprintf "; no order has a peak below %d" b.least)

let () =
  if Array.length Sys.argv < 2 then (prerr_endline "usage: checker FILE..."; exit 2);
  let bad = ref false in
  for i = 1 to Array.length Sys.argv - 1 do
    let file = Sys.argv.(i) in
    let says = try said (read file) with Wrong what | Sys_error what -> bad := true; "wrong: " ^ what in
    if String.length says >= 5 && String.sub says 0 5 = "wrong" then bad := true;
    Printf.printf "%s: %s\n" file says
  done;
  if !bad then exit 1
