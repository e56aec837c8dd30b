(** * What a lower bound claims, and the constraints of which it is proven

    The definitions of the lemma in Lemma.v. A reader compares them with docs/formats/bounds.md.
    Whether the formulas that internal/proof/model writes are of these families, Bound.v decides. *)

From Coq Require Import List ZArith Bool Arith.
Import ListNotations.
Open Scope Z_scope.

(** A graph: nodes, tensors, and bytes that would be written over parameters, by number. *)
Record graph := {
  nodes : list positive;
  before : positive -> list positive;      (* by node: what must run before it *)
  work : positive -> Z;                    (* by node: bytes besides its tensors *)
  tensors : list positive;
  bytes : positive -> Z;
  maker : positive -> option positive;     (* none: it is there before the first step *)
  readers : positive -> list positive;
  output : positive -> bool;               (* live to the last step *)
  pairs : positive -> list (positive * positive); (* by node: a result, and the tensor it may lie over *)
  writes : list positive;
  wbytes : positive -> Z;
  wmaker : positive -> positive;
  others : positive -> list positive;      (* what else reads the parameter *)
  at_once : positive -> bool;              (* they count at the maker's step *)
  later : positive -> bool }.              (* and behind it *)

(** An order has each node once, behind all that must run before it. *)
Definition is_order g p :=
  NoDup p /\ (forall v, In v p <-> In v (nodes g)) /\
  forall l v r, p = l ++ v :: r -> incl (before g v) l.

(** The load of node v behind the nodes of l, if it takes some of its pairs. *)
Definition ran (l : list positive) v := existsb (Pos.eqb v) l.
Definition left_of (l rs : list positive) := existsb (fun r => negb (ran l r)) rs.
Definition none {A} (l : list A) := match l with [] => true | _ => false end.
Definition live g l t :=
  match maker g t with
  | Some m => ran l m && (output g t || left_of l (readers g t))
  | None => output g t || left_of l (readers g t) || none (readers g t) && none l
  end.
Definition makes g v t := match maker g t with Some m => Pos.eqb m v | None => false end.
Definition counts g l v t := makes g v t || live g l t.
Definition elsewhere g l v e :=
  left_of l (others g e) && (Pos.eqb (wmaker g e) v && at_once g e || ran l (wmaker g e) && later g e).
Definition sum {A} (f : A -> Z) (l : list A) := fold_right (fun x s => f x + s) 0 l.
Definition given (b : bool) (x : Z) := if b then x else 0.
Definition load g l v (taken : list (positive * positive)) :=
  sum (fun t => given (counts g l v t) (bytes g t)) (tensors g) +
  sum (fun e => given (elsewhere g l v e) (wbytes g e)) (writes g) +
  work g v - sum (fun p => bytes g (snd p)) taken.

(** What it may take: no tensor twice, and nothing that another node still reads. *)
Definition may_take g l v (taken : list (positive * positive)) :=
  incl taken (pairs g v) /\ NoDup (map fst taken) /\ NoDup (map snd taken) /\
  forall p r, In p taken -> In r (readers g (snd p)) -> r = v \/ In r l.

(** Variables, and constraints: at least so many of these literals are true. *)
Inductive var := Ran (v : positive) | Runs (a : positive) | Alive (t : positive) | Else (e : positive) | Takes (a : positive) (p : positive * positive)
  | Zoned (j : positive) | Behind (u : positive).
Definition lit := (bool * var)%type.
Definition yes x : lit := (true, x).
Definition no x : lit := (false, x).
Definition row := (list lit * nat)%type.
Definition holds (s : var -> bool) (r : row) :=
  (snd r <= length (filter (fun l => Bool.eqb (fst l) (s (snd l))) (fst r)))%nat.
Definition clause (l : list lit) : row := (l, 1%nat).

(** Zones of states: in zone j, all of [have j] have run, and none of [lack j]. *)
Record zones := { zoned : list positive; have : positive -> list positive; lack : positive -> list positive }.
Definition within z l j := forallb (ran l) (have z j) && negb (existsb (ran l) (lack z j)).

(** Of which step a formula speaks: that of the node of A that runs first, or last, or that of one
    by which the states leave zones. *)
Inductive which := First | Last | Leaving (z : zones).
Definition chosen w A l v :=
  match w with
  | First => forall a, In a A -> ~ In a l
  | Last => forall a, In a A -> a = v \/ In a l
  | Leaving z => existsb (within z l) (zoned z) = true /\ existsb (within z (l ++ [v])) (zoned z) = false
  end.

(** The families, under the names that model.go and zones.go give them. *)
Definition r_order g := flat_map (fun u => map (fun w => clause [yes (Ran w); no (Ran u)]) (before g u)) (nodes g).
Definition r_one (A : list positive) := [clause (map (fun a => yes (Runs a)) A)].
Definition r_alone (A : list positive) := flat_map (fun a => flat_map (fun b =>
  if Pos.eqb a b then [] else [clause [no (Runs a); no (Runs b)]]) A) A.
Definition r_ready g A := flat_map (fun a => map (fun w => clause [yes (Ran w); no (Runs a)]) (before g a)) A.
Definition r_first A := map (fun a => clause [no (Ran a)]) A.
Definition r_last A := flat_map (fun a => [clause [yes (Ran a); yes (Runs a)]; clause [no (Ran a); no (Runs a)]]) A.
Definition unmade g t := match maker g t with Some m => [no (Ran m)] | None => [] end.
Definition r_made g A := flat_map (fun t => flat_map (fun a =>
  if makes g a t then [clause [yes (Alive t); no (Runs a)]] else []) A) (tensors g).
Definition r_live g := flat_map (fun t =>
  if output g t then [clause (yes (Alive t) :: unmade g t)]
  else match maker g t, readers g t with
       | None, [] => [clause (yes (Alive t) :: map (fun v => yes (Ran v)) (nodes g))]
       | _, _ => map (fun r => clause (yes (Alive t) :: unmade g t ++ [yes (Ran r)])) (readers g t)
       end) (tensors g).
Definition r_written g A := flat_map (fun e => flat_map (fun r =>
  (if at_once g e && existsb (Pos.eqb (wmaker g e)) A then [clause [yes (Else e); no (Runs (wmaker g e)); yes (Ran r)]] else []) ++
  (if later g e then [clause [yes (Else e); no (Ran (wmaker g e)); yes (Ran r)]] else [])) (others g e)) (writes g).
Definition r_taken g A := flat_map (fun a => map (fun p => clause [no (Takes a p); yes (Runs a)]) (pairs g a)) A.
Definition r_free g A := flat_map (fun a => flat_map (fun p => flat_map (fun r =>
  if Pos.eqb r a then [] else [clause [no (Takes a p); yes (Ran r)]]) (readers g (snd p))) (pairs g a)) A.
Definition at_most_one a (l : list (positive * positive)) : row := (map (fun p => no (Takes a p)) l, (length l - 1)%nat).
Definition r_once g A := flat_map (fun a => flat_map (fun t =>
  [at_most_one a (filter (fun p => Pos.eqb (fst p) t) (pairs g a));
   at_most_one a (filter (fun p => Pos.eqb (snd p) t) (pairs g a))]) (tensors g)) A.

Definition r_now A := map (fun a => clause [no (Ran a); no (Runs a)]) A.
Definition r_in z := [clause (map (fun j => yes (Zoned j)) (zoned z))].
Definition r_zone z := flat_map (fun j =>
  map (fun u => clause [yes (Ran u); no (Zoned j)]) (have z j) ++
  map (fun u => clause [no (Zoned j); no (Ran u)]) (lack z j)) (zoned z).
Definition r_behind g := flat_map (fun u => [clause [yes (Behind u); no (Ran u)]; clause [yes (Behind u); no (Runs u)]]) (nodes g).
Definition r_left z := map (fun j => clause (
  map (fun u => no (Behind u)) (have z j) ++ flat_map (fun u => [yes (Ran u); yes (Runs u)]) (lack z j))) (zoned z).
Definition r_which g A w :=
  match w with
  | First => r_one A ++ r_first A
  | Last => r_one A ++ r_last A
  | Leaving z => r_now A ++ r_in z ++ r_zone z ++ r_behind g ++ r_left z
  end.

Definition rows g A w :=
  r_order g ++ r_which g A w ++ r_alone A ++ r_ready g A ++
  r_made g A ++ r_live g ++ r_written g A ++ r_taken g A ++ r_free g A ++ r_once g A.

Definition objective g A (s : var -> bool) :=
  sum (fun t => given (s (Alive t)) (bytes g t)) (tensors g) +
  sum (fun e => given (s (Else e)) (wbytes g e)) (writes g) +
  sum (fun a => given (s (Runs a)) (work g a)) A -
  sum (fun a => sum (fun p => given (s (Takes a p)) (bytes g (snd p))) (pairs g a)) A.
