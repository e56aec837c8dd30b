(** * A checker of lower bounds

    It reads the facts of a graph, a formula and a proof, and decides whether the proof shows that
    no order of the graph has a peak below a bound. Of the formula it believes nothing: each row
    must be one of the families of Model.v for these facts, and the objective must be theirs
    ([bound_is_right]). The graph has orders: the steps of the plan are one ([steps_are_an_order]),
    and precedence is that of the plan ([precedence_is]). Join.v has it extracted to OCaml; bounds.ml
    hands it the texts. *)

From Coq Require Import List ZArith Bool Lia FSets.FMapPositive.
Require Import Model Lemma Cuts.
Import ListNotations.
Open Scope Z_scope.

(** What the lines of the plain text say, by number. *)
Record tensor_fact := { t_bytes : Z; t_maker : option positive; t_output : bool; t_readers : list positive }.
Record written_fact := { w_bytes : Z; w_maker : positive; w_at_once : bool; w_later : bool; w_others : list positive }.
Record facts := {
  f_nodes : list positive;
  f_before : list (positive * positive);             (* a node, and what must run before it *)
  f_work : list (positive * Z);
  f_tensors : list (positive * tensor_fact);
  f_pairs : list (positive * (positive * positive)); (* a node, a result, what it may lie over *)
  f_written : list (positive * written_fact) }.

Definition find {A} (k : positive) (m : PositiveMap.t A) := PositiveMap.find k m.
Definition table {A} (l : list (positive * A)) := fold_right (fun x m => PositiveMap.add (fst x) (snd x) m) (PositiveMap.empty A) l.
Definition at_key {A} (m : PositiveMap.t (list A)) k := match find k m with Some l => l | None => [] end.
Definition grouped {A} (l : list (positive * A)) :=
  fold_right (fun x m => PositiveMap.add (fst x) (snd x :: at_key m (fst x)) m) (PositiveMap.empty (list A)) l.
Definition get {A B} (m : PositiveMap.t A) (f : A -> B) (b : B) k := match find k m with Some x => f x | None => b end.

Definition graph_of (f : facts) : graph :=
  let before := grouped (f_before f) in
  let work := table (f_work f) in
  let tensors := table (f_tensors f) in
  let pairs := grouped (f_pairs f) in
  let written := table (f_written f) in
  {| nodes := f_nodes f; before := at_key before; work := get work (fun x => x) 0;
     tensors := map fst (f_tensors f); bytes := get tensors t_bytes 0; maker := get tensors t_maker None;
     readers := get tensors t_readers []; output := get tensors t_output false;
     pairs := at_key pairs;
     writes := map fst (f_written f); wbytes := get written w_bytes 0; wmaker := get written w_maker 1%positive;
     others := get written w_others []; at_once := get written w_at_once false; later := get written w_later false |}.

(** Of which step a bound speaks, in the text: zones are what has run in their states, and what not. *)
Inductive which_fact := FirstOf | LastOf | LeavingOf (l : list (positive * (list positive * list positive))).
Definition which_of (w : which_fact) : which :=
  match w with
  | FirstOf => First
  | LastOf => Last
  | LeavingOf l => let m := table l in Leaving {| zoned := map fst l; have := get m fst []; lack := get m snd [] |}
  end.

(** The row of the families that begins and ends like a given one, if there is one. Rows of
    [r_left] name no zone: all are looked through. *)
Definition set_of (l : list positive) := table (map (fun x => (x, tt)) l).
Definition has (m : PositiveMap.t unit) k := match find k m with Some _ => true | None => false end.
Definition among (x : positive) l := existsb (Pos.eqb x) l.
Definition pair_among p l := existsb (eqp p) l.
Definition only (b : bool) (r : list row) := if b then r else [].
Definition zones_of w := match w with Leaving z => z | _ => {| zoned := []; have := fun _ => []; lack := fun _ => [] |} end.
Record sets := { inA : PositiveMap.t unit; isnode : PositiveMap.t unit; istensor : PositiveMap.t unit; iswrite : PositiveMap.t unit; iszone : PositiveMap.t unit; lefts : list row }.
Definition sets_of g A w := {| inA := set_of A; isnode := set_of (nodes g); istensor := set_of (tensors g); iswrite := set_of (writes g);
  iszone := set_of (zoned (zones_of w)); lefts := r_left (zones_of w) |}.
Definition is_first w := match w with First => true | _ => false end.
Definition is_last w := match w with Last => true | _ => false end.
Definition is_leaving w := match w with Leaving _ => true | _ => false end.

Definition live_row g t (l : lit) : list row :=
  if output g t then [clause (yes (Alive t) :: unmade g t)]
  else match maker g t, readers g t with
       | None, [] => [clause (yes (Alive t) :: map (fun v => yes (Ran v)) (nodes g))]
       | _, _ => match l with
                 | (true, Ran r) => only (among r (readers g t)) [clause (yes (Alive t) :: unmade g t ++ [yes (Ran r)])]
                 | _ => []
                 end
       end.
Definition written_row g (in_A : positive -> bool) e (l : list lit) : list row :=
  match l with
  | (false, Runs m) :: (true, Ran r) :: _ =>
    only (at_once g e && Pos.eqb (wmaker g e) m && in_A m && among r (others g e)) [clause [yes (Else e); no (Runs m); yes (Ran r)]]
  | (false, Ran m) :: (true, Ran r) :: _ =>
    only (later g e && Pos.eqb (wmaker g e) m && among r (others g e)) [clause [yes (Else e); no (Ran m); yes (Ran r)]]
  | _ => []
  end.
Definition once_rows g a (p : positive * positive) : list row :=
  [at_most_one a (filter (fun q => Pos.eqb (fst q) (fst p)) (pairs g a));
   at_most_one a (filter (fun q => Pos.eqb (snd q) (snd p)) (pairs g a))].
Definition candidates g A w (s : sets) (l : list lit) : list row :=
  let z := zones_of w in
  match l with
  | (true, Ran w) :: (false, Ran u) :: _ => only (has (isnode s) u && among w (before g u)) [clause [yes (Ran w); no (Ran u)]]
  | (true, Ran w) :: (false, Runs a) :: _ => only (has (inA s) a && among w (before g a)) [clause [yes (Ran w); no (Runs a)]]
  | (true, Ran u) :: (false, Zoned j) :: _ => only (has (iszone s) j && among u (have z j)) [clause [yes (Ran u); no (Zoned j)]]
  | (true, Ran a) :: (true, Runs _) :: _ => only (is_last w && has (inA s) a) [clause [yes (Ran a); yes (Runs a)]] ++ lefts s
  | (false, Ran a) :: (false, Runs _) :: _ => only (negb (is_first w) && has (inA s) a) [clause [no (Ran a); no (Runs a)]]
  | (false, Ran a) :: [] => only (is_first w && has (inA s) a) [clause [no (Ran a)]]
  | (true, Runs _) :: _ => only (negb (is_leaving w)) (r_one A)
  | (true, Zoned _) :: _ => only (is_leaving w) (r_in z)
  | (false, Zoned j) :: (false, Ran u) :: _ => only (has (iszone s) j && among u (lack z j)) [clause [no (Zoned j); no (Ran u)]]
  | (true, Behind u) :: (false, Ran _) :: _ => only (is_leaving w && has (isnode s) u) [clause [yes (Behind u); no (Ran u)]]
  | (true, Behind u) :: (false, Runs _) :: _ => only (is_leaving w && has (isnode s) u) [clause [yes (Behind u); no (Runs u)]]
  | (false, Behind _) :: _ => lefts s
  | (false, Runs a) :: (false, Runs b) :: _ => only (has (inA s) a && has (inA s) b && negb (Pos.eqb a b)) [clause [no (Runs a); no (Runs b)]]
  | (true, Alive t) :: (false, Runs m) :: _ => only (has (istensor s) t && makes g m t && has (inA s) m) [clause [yes (Alive t); no (Runs m)]]
  | (true, Alive t) :: _ => if has (istensor s) t then live_row g t (fold_left (fun _ x => x) l (yes (Runs t))) else []
  | (true, Else e) :: rest => if has (iswrite s) e then written_row g (has (inA s)) e rest else []
  | (false, Takes a p) :: (true, Runs _) :: _ => only (has (inA s) a && pair_among p (pairs g a)) [clause [no (Takes a p); yes (Runs a)]]
  | (false, Takes a p) :: (true, Ran r) :: _ =>
    only (has (inA s) a && pair_among p (pairs g a) && among r (readers g (snd p)) && negb (Pos.eqb r a)) [clause [no (Takes a p); yes (Ran r)]]
  | (false, Takes a p) :: _ => if has (inA s) a && has (istensor s) (fst p) && has (istensor s) (snd p) then once_rows g a p else []
  | _ => []
  end.

Definition var_eqb (x y : var) :=
  match x, y with
  | Ran a, Ran b | Runs a, Runs b | Alive a, Alive b | Else a, Else b => Pos.eqb a b
  | Takes a p, Takes b q => Pos.eqb a b && eqp p q
  | Zoned a, Zoned b | Behind a, Behind b => Pos.eqb a b
  | _, _ => false
  end.
Fixpoint same {A} (e : A -> A -> bool) (l m : list A) :=
  match l, m with [], [] => true | x :: l, y :: m => e x y && same e l m | _, _ => false end.
Definition lit_eqb (x y : lit) := Bool.eqb (fst x) (fst y) && var_eqb (snd x) (snd y).
Definition row_eqb (r q : row) := same lit_eqb (fst r) (fst q) && Nat.eqb (snd r) (snd q).
Definition justified g A w s (r : row) := existsb (row_eqb r) (candidates g A w s (fst r)).

(** The terms of the objective, in the order of the formula. *)
Definition costs g A : list (Z * var) :=
  filter (fun x => negb (fst x =? 0))
    (map (fun a => (work g a, Runs a)) A ++ map (fun t => (bytes g t, Alive t)) (tensors g) ++
     map (fun e => (wbytes g e, Else e)) (writes g) ++
     flat_map (fun a => map (fun p => (- bytes g (snd p), Takes a p)) (pairs g a)) A).
Definition cost_eqb (x y : Z * var) := (fst x =? fst y) && var_eqb (snd x) (snd y).

(** The formula and its proof, with numbers for variables: [names] says which they are. *)
Record witness := {
  names : list (positive * var);
  objective_terms : list (Z * positive);
  formula : list (list (bool * positive) * nat);
  derivations : list (option (list op)) }.

Definition name (m : PositiveMap.t var) v := get m (fun x => x) (Ran 1) v.
Definition row_of m (r : list (bool * positive) * nat) : row := (map (fun l => (fst l, name m (snd l))) (fst r), snd r).
Definition con_of (r : list (bool * positive) * nat) : con :=
  fold_right (fun l => plus (literal (fst l) (snd l))) {| terms := []; degree := Z.of_nat (snd r) |} (fst r).
Definition below_con B (l : list (Z * positive)) : con :=
  {| terms := fold_right (fun x => merge [(snd x, - fst x)]) [] l; degree := 1 - B |}.
Definition given_cons (l : list (list (bool * positive) * nat)) :=
  fold_left (fun nd r => (Pos.succ (fst nd), PositiveMap.add (fst nd) (con_of r) (snd nd))) l (1%positive, PositiveMap.empty con).

Fixpoint ascending (l : list positive) := match l with x :: (y :: _) as m => Pos.ltb x y && ascending m | _ => true end.
Fixpoint distinct (l : list (positive * positive)) := match l with [] => true | x :: l => negb (pair_among x l) && distinct l end.

(** Edges, as in [f_before]: of each node, what must run before it. *)
Definition edge_sets (l : list (positive * positive)) :=
  fold_right (fun e m => PositiveMap.add (fst e) (PositiveMap.add (snd e) tt (get m (fun s => s) (PositiveMap.empty unit) (fst e))) m)
    (PositiveMap.empty (PositiveMap.t unit)) l.
Definition edge_in m (e : positive * positive) := has (get m (fun s => s) (PositiveMap.empty unit) (fst e)) (snd e).
Definition subset l m := let s := edge_sets m in forallb (edge_in s) l.

(** The edges are those of the plan, and go from a node to a later one. *)
Definition precedes (f : facts) (edges : list (positive * positive)) :=
  subset edges (f_before f) && subset (f_before f) edges && ascending (f_nodes f) &&
  let s := set_of (f_nodes f) in forallb (fun e => has s (snd e) && Pos.ltb (snd e) (fst e)) (f_before f).

Definition speaks_of (A : list positive) w :=
  match w with
  | Leaving z => existsb (fun j => none (have z j)) (zoned z) &&
    let s := set_of A in forallb (fun j => negb (none (lack z j)) && forallb (has s) (lack z j)) (zoned z)
  | _ => negb (none A)
  end.
Definition well_formed (f : facts) (A : list positive) (w : which) :=
  speaks_of A w && ascending A && forallb (has (set_of (f_nodes f))) A &&
  forallb (fun kv => distinct (snd kv)) (PositiveMap.elements (grouped (f_pairs f))).
Definition formula_is g A w x :=
  let m := table (names x) in
  let s := sets_of g A w in
  same cost_eqb (map (fun x => (fst x, name m (snd x))) (objective_terms x)) (costs g A) &&
  forallb (fun r => justified g A w s (row_of m r)) (formula x).
Definition proof_is B x :=
  let nd := given_cons (formula x) in
  derive (below_con B (objective_terms x)) (snd nd) (fst nd) (derivations x) {| terms := []; degree := 0 |}.

Definition check_bound (f : facts) (edges : list (positive * positive)) (A : list positive) (wf : which_fact) (B : Z) (x : witness) :=
  let w := which_of wf in
  (precedes f edges, well_formed f A w, formula_is (graph_of f) A w x, proof_is B x).

(** ** What it accepts is right *)

Lemma table_In : forall {A} (l : list (positive * A)) k x, find k (table l) = Some x -> In (k, x) l.
Proof.
  intros A l k x. induction l as [|[j y] l IH]; simpl; unfold find in *; intros F.
  - now rewrite PositiveMap.gempty in F.
  - destruct (Pos.eq_dec k j) as [->|N].
    + rewrite PositiveMap.gss in F. injection F as ->. now left.
    + rewrite PositiveMap.gso in F by assumption. right. now apply IH.
Qed.

(** What must run before a node, and which pairs it has, are those that are listed. *)
Lemma grouped_In : forall {A} (l : list (positive * A)) k x, In x (at_key (grouped l) k) <-> In (k, x) l.
Proof.
  intros A l k x. induction l as [|[j y] l IH]; cbn [grouped fold_right fst snd]; unfold at_key, find in *.
  - rewrite PositiveMap.gempty. simpl. tauto.
  - fold (grouped l). destruct (Pos.eq_dec k j) as [->|N].
    + rewrite PositiveMap.gss. simpl. rewrite <- IH. split; intros [H|H]; auto; left; congruence.
    + rewrite PositiveMap.gso by assumption. rewrite IH. simpl. split; [tauto|].
      intros [H|H]; [congruence | assumption].
Qed.

Lemma has_In : forall l k, has (set_of l) k = true -> In k l.
Proof.
  intros l k H. unfold has in H. destruct (find k (set_of l)) eqn:F; [|discriminate].
  apply table_In in F. apply in_map_iff in F. destruct F as [x [E I]]. congruence.
Qed.

Lemma among_In : forall x l, among x l = true -> In x l.
Proof. intros x l H. now apply ran_In. Qed.
Lemma pair_among_In : forall x l, pair_among x l = true -> In x l.
Proof. intros x l H. now apply taken_In. Qed.

Lemma var_eqb_eq : forall x y, var_eqb x y = true -> x = y.
Proof.
  intros [a|a|a|a|a p|a|a] [b|b|b|b|b q|b|b] E; simpl in E; try discriminate; try (apply Pos.eqb_eq in E; now subst).
  apply andb_true_iff in E. destruct E as [E F]. apply Pos.eqb_eq in E. apply eqp_eq in F. now subst.
Qed.
Lemma same_eq : forall {A} (e : A -> A -> bool) l m, (forall x y, e x y = true -> x = y) -> same e l m = true -> l = m.
Proof.
  intros A e l. induction l as [|x l IH]; intros [|y m] H E; simpl in E; try discriminate; [reflexivity|].
  apply andb_true_iff in E. destruct E as [E F]. f_equal; auto.
Qed.
Lemma row_eqb_eq : forall r q, row_eqb r q = true -> r = q.
Proof.
  intros [l n] [m k] E. unfold row_eqb in E. simpl in E. apply andb_true_iff in E. destruct E as [E F].
  apply Nat.eqb_eq in F. subst. f_equal. apply (same_eq lit_eqb); auto.
  intros [a x] [b y] G. unfold lit_eqb in G. simpl in G. apply andb_true_iff in G. destruct G as [G H].
  apply eqb_prop in G. apply var_eqb_eq in H. now subst.
Qed.

Lemma only_In : forall b r x, In x (only b r) -> b = true /\ In x r.
Proof. intros [|] r x H; [auto | contradiction]. Qed.

Section Rows.
  Variables (g : graph) (A : list positive) (w : which).
  Ltac facts := repeat match goal with
    | H : In _ (only _ _) |- _ => apply only_In in H; destruct H
    | H : _ && _ = true |- _ => apply andb_true_iff in H; destruct H
    | H : has _ _ = true |- _ => apply has_In in H
    | H : among _ _ = true |- _ => apply among_In in H
    | H : pair_among _ _ = true |- _ => apply pair_among_In in H
    | H : negb _ = true |- _ => apply negb_true_iff in H
    | H : Pos.eqb _ _ = true |- _ => apply Pos.eqb_eq in H
    end.
  Ltac family i := unfold rows; rewrite !in_app_iff; do i right; try left.

  Lemma in_live : forall t l r, In t (tensors g) -> In r (live_row g t l) -> In r (r_live g).
  Proof.
    intros t l r T R. unfold r_live. apply in_flat_map. exists t. split; [assumption|]. unfold live_row in R.
    destruct (output g t); [assumption|].
    assert (Q : In r match l with (true, Ran r) => only (among r (readers g t)) [clause (yes (Alive t) :: unmade g t ++ [yes (Ran r)])] | _ => [] end ->
      In r (map (fun r => clause (yes (Alive t) :: unmade g t ++ [yes (Ran r)])) (readers g t))).
    { destruct l as [[|] [x|x|x|x|x y|x|x]]; try contradiction. intros Q. facts. destruct H0 as [<-|[]].
      apply in_map_iff. eauto. }
    destruct (maker g t); [auto|]. destruct (readers g t) eqn:E; [assumption|]. rewrite <- E in *. auto.
  Qed.

  Lemma in_written : forall e l r, In e (writes g) -> In r (written_row g (has (set_of A)) e l) -> In r (r_written g A).
  Proof.
    intros e l r E R. unfold r_written. apply in_flat_map. exists e. split; [assumption|]. unfold written_row in R.
    destruct l as [|[[|] [m|m|m|m|m q|m|m]] l]; try contradiction;
      destruct l as [|[[|] [x|x|x|x|x y|x|x]] l]; try contradiction; facts; subst; apply in_flat_map; exists x; (split; [assumption|]); apply in_app_iff.
    - right. destruct (later g e); [assumption | discriminate].
    - left. rewrite H. destruct (existsb (Pos.eqb (wmaker g e)) A) eqn:Q; [assumption|].
      exfalso. match goal with I : In (wmaker g e) A |- _ => apply (ran_In A) in I; unfold ran in I end.
      assert (Z : existsb (Pos.eqb (wmaker g e)) A = true) by assumption. congruence.
  Qed.

  Lemma in_once : forall a p r, In a A -> In (fst p) (tensors g) -> In (snd p) (tensors g) ->
    In r (once_rows g a p) -> In r (r_once g A).
  Proof.
    intros a p r Ha F S R. unfold r_once. apply in_flat_map. exists a. split; [assumption|]. apply in_flat_map.
    destruct R as [<-|[<-|[]]]; [exists (fst p) | exists (snd p)]; (split; [assumption | simpl; auto]).
  Qed.

  Lemma lefts_In : forall r, In r (r_left (zones_of w)) -> In r (r_which g A w).
  Proof. intros r H. destruct w as [| |z]; try contradiction. cbn [zones_of r_which] in *. rewrite !in_app_iff. tauto. Qed.

  Lemma candidates_In : forall l r, In r (candidates g A w (sets_of g A w) l) -> In r (rows g A w).
  Proof.
    intros l r H.
    assert (Which : In r (r_which g A w) -> In r (rows g A w)) by (intros Q; unfold rows; rewrite !in_app_iff; tauto).
    unfold candidates, sets_of in H. cbn [inA isnode istensor iswrite iszone lefts] in H. cbv zeta in H.
    destruct l as [|[b x] l]; [contradiction|].
    assert (Alive' : forall t l, In r (if has (set_of (tensors g)) t then live_row g t l else []) -> In r (rows g A w)).
    { intros t k Q. destruct (has _ t) eqn:T in Q; [|contradiction]. facts. unfold rows. rewrite !in_app_iff. do 5 right. left.
      eapply in_live; eauto. }
    assert (Once : forall a p, In r (if has (set_of A) a && has (set_of (tensors g)) (fst p) && has (set_of (tensors g)) (snd p) then once_rows g a p else []) ->
      In r (rows g A w)).
    { intros a p Q. destruct (_ && _ && _) eqn:T in Q; [|contradiction]. facts. unfold rows. rewrite !in_app_iff. do 9 right.
      eapply in_once; eauto. }
    destruct b, x as [v|v|v|v|v p|v|v]; cbv beta iota zeta in H.
    - destruct l as [|[[|] [u|u|u|u|u p|u|u]] l]; try contradiction.
      + apply in_app_iff in H. apply Which. destruct H as [H|H]; [|now apply lefts_In]. facts. destruct w; try discriminate.
        cbn [r_which zones_of zoned have lack] in *. rewrite in_app_iff. right. unfold r_last. apply in_flat_map. exists v. simpl in *. tauto.
      + facts. unfold rows. rewrite !in_app_iff. left. unfold r_order. apply in_flat_map. exists u. split; [assumption|]. apply in_map_iff. exists v. simpl in *. intuition.
      + facts. unfold rows. rewrite !in_app_iff. do 3 right. left. unfold r_ready. apply in_flat_map. exists u. split; [assumption|]. apply in_map_iff. exists v. simpl in *. intuition.
      + facts. apply Which. destruct w as [| |z]; cbn [zones_of zoned] in *; try contradiction. cbn [r_which zones_of zoned have lack] in *. rewrite !in_app_iff. do 2 right. left.
        unfold r_zone. apply in_flat_map. exists u. split; [assumption|]. apply in_app_iff. left. apply in_map_iff. exists v. simpl in *. intuition.
    - facts. apply Which. destruct w; try discriminate; cbn [r_which zones_of zoned have lack] in *; rewrite in_app_iff; left; assumption.
    - destruct l as [|[[|] [u|u|u|u|u p|u|u]] l]; try (eapply Alive'; exact H).
      facts. unfold rows. rewrite !in_app_iff. do 4 right. left. unfold r_made. apply in_flat_map. exists v. split; [assumption|].
      apply in_flat_map. exists u. split; [assumption|]. match goal with M : makes g u v = true |- _ => now rewrite M end.
    - destruct (has _ v) eqn:E in H; [|contradiction]. facts. unfold rows. rewrite !in_app_iff. do 6 right. left. eapply in_written; eauto.
    - contradiction.
    - facts. apply Which. destruct w; try discriminate. cbn [r_which zones_of] in *. rewrite !in_app_iff. tauto.
    - apply Which. destruct l as [|[[|] [u|u|u|u|u p|u|u]] l]; try contradiction; facts; (destruct w as [| |z]; try discriminate);
        cbn [r_which zones_of zoned have lack] in *; rewrite !in_app_iff; do 3 right; left; unfold r_behind; apply in_flat_map; exists v; simpl in *; tauto.
    - destruct l as [|[[|] [u|u|u|u|u p|u|u]] l]; try contradiction; facts; apply Which.
      + destruct w; try discriminate. cbn [r_which zones_of zoned have lack] in *. rewrite in_app_iff. right. unfold r_first. apply in_map_iff. exists v. simpl in *. intuition.
      + destruct w as [| |z]; try discriminate; cbn [r_which zones_of zoned have lack] in *; rewrite !in_app_iff.
        * right. unfold r_last. apply in_flat_map. exists v. simpl in *. tauto.
        * left. unfold r_now. apply in_map_iff. exists v. simpl in *. intuition.
    - destruct l as [|[[|] [u|u|u|u|u p|u|u]] l]; try contradiction; facts. unfold rows. rewrite !in_app_iff. do 2 right. left.
      unfold r_alone. apply in_flat_map. exists v. split; [assumption|]. apply in_flat_map. exists u. split; [assumption|].
      match goal with E : Pos.eqb v u = false |- _ => now rewrite E end.
    - contradiction.
    - contradiction.
    - destruct l as [|[[|] [u|u|u|u|u q|u|u]] l]; try (eapply Once; exact H); facts; unfold rows; rewrite !in_app_iff.
      + do 8 right. left. unfold r_free. apply in_flat_map. exists v. split; [assumption|]. apply in_flat_map. exists p. split; [assumption|].
        apply in_flat_map. exists u. split; [assumption|]. match goal with E : Pos.eqb u v = false |- _ => now rewrite E end.
      + do 7 right. left. unfold r_taken. apply in_flat_map. exists v. split; [assumption|]. apply in_map_iff. exists p. simpl in *. intuition.
    - destruct l as [|[[|] [u|u|u|u|u p|u|u]] l]; try contradiction; facts; apply Which. destruct w as [| |z]; cbn [zones_of zoned] in *; try contradiction.
      cbn [r_which zones_of zoned have lack] in *. rewrite !in_app_iff. do 2 right. left.
      unfold r_zone. apply in_flat_map. exists v. split; [assumption|]. apply in_app_iff. right. apply in_map_iff. exists u. simpl in *. intuition.
    - apply Which. now apply lefts_In.
  Qed.

  Lemma justified_In : forall r, justified g A w (sets_of g A w) r = true -> In r (rows g A w).
  Proof.
    intros r J. unfold justified in J. apply existsb_exists in J. destruct J as [q [I E]].
    apply row_eqb_eq in E. subst q. now apply candidates_In in I.
  Qed.
End Rows.

(** Constraints say of numbers what rows say of the variables that they stand for. *)
Definition numbered m (s : var -> bool) (v : positive) := s (name m v).

Lemma con_of_valid : forall m s r, holds s (row_of m r) -> valid (numbered m s) (con_of r).
Proof.
  intros m s [l n] H. unfold holds, row_of in H. simpl in H. unfold con_of. simpl fst. simpl snd.
  set (e := {| terms := []; degree := Z.of_nat n |}).
  enough (Q : degree (fold_right (fun l => plus (literal (fst l) (snd l))) e l) + Z.of_nat (length (filter (fun l => Bool.eqb (fst l) (s (snd l))) (map (fun l => (fst l, name m (snd l))) l)))
    = Z.of_nat n + value (numbered m s) (terms (fold_right (fun l => plus (literal (fst l) (snd l))) e l))) by (unfold valid; lia).
  clear H. induction l as [|[b v] l IH]; [simpl; lia|].
  cbn [fold_right map fst snd filter]. set (c := fold_right _ e l) in *.
  change (degree (plus (literal b v) c)) with (degree (literal b v) + degree c).
  change (terms (plus (literal b v) c)) with (merge (terms (literal b v)) (terms c)).
  rewrite merge_value. destruct b; cbn [literal terms degree value fold_right fst snd]; unfold numbered at 1; destruct (s (name m v)); cbn [Bool.eqb length]; lia.
Qed.

Lemma given_valid : forall s l n d, all_valid s d -> Forall (fun r => valid s (con_of r)) l ->
  all_valid s (snd (fold_left (fun nd r => (Pos.succ (fst nd), PositiveMap.add (fst nd) (con_of r) (snd nd))) l (n, d))).
Proof.
  intros s l. induction l as [|r l IH]; intros n d D F; simpl; [assumption|].
  inversion F; subst. apply IH; [|assumption]. intros i c E. destruct (Pos.eq_dec i n) as [->|N].
  - rewrite PositiveMap.gss in E. now injection E as <-.
  - rewrite PositiveMap.gso in E by assumption. eauto.
Qed.

Lemma below_valid : forall m s B l, sum (fun x => given (s (snd x)) (fst x)) (map (fun x => (fst x, name m (snd x))) l) < B ->
  valid (numbered m s) (below_con B l).
Proof.
  intros m s B l H. unfold valid, below_con. cbn [degree terms].
  assert (E : value (numbered m s) (fold_right (fun x => merge [(snd x, - fst x)]) [] l) =
    - sum (fun x => given (s (snd x)) (fst x)) (map (fun x => (fst x, name m (snd x))) l)); [|lia].
  clear H. induction l as [|x l IH]; [reflexivity|].
  cbn [fold_right map]. rewrite merge_value, IH. unfold sum, given. cbn [value fold_right fst snd]. unfold numbered at 1.
  destruct (s (name m (snd x))); lia.
Qed.

Lemma sum_app : forall {A} (f : A -> Z) l m, sum f (l ++ m) = sum f l + sum f m.
Proof. intros A f l m. unfold sum. induction l as [|x l IH]; simpl; lia. Qed.
Lemma sum_map : forall {A B} (f : B -> Z) (h : A -> B) l, sum f (map h l) = sum (fun x => f (h x)) l.
Proof. intros A B f h l. unfold sum. induction l as [|x l IH]; simpl; lia. Qed.
Lemma sum_flat_map : forall {A B} (f : B -> Z) (h : A -> list B) l, sum f (flat_map h l) = sum (fun x => sum f (h x)) l.
Proof. intros A B f h l. induction l as [|x l IH]; [reflexivity|]. cbn [flat_map]. rewrite sum_app. cbn [sum fold_right]. unfold sum in *. lia. Qed.
Lemma sum_opp : forall {A} (f : A -> Z) l, sum (fun x => - f x) l = - sum f l.
Proof. intros A f l. unfold sum. induction l as [|x l IH]; simpl; lia. Qed.

Lemma costs_are : forall g A s, sum (fun x => given (s (snd x)) (fst x)) (costs g A) = objective g A s.
Proof.
  intros g A s. unfold costs.
  assert (Z0 : forall l : list (Z * var), sum (fun x => given (s (snd x)) (fst x)) (filter (fun x => negb (fst x =? 0)) l) = sum (fun x => given (s (snd x)) (fst x)) l).
  { intros l. induction l as [|x l IH]; [reflexivity|]. cbn [filter]. destruct (fst x =? 0) eqn:E; cbn [negb sum fold_right].
    - apply Z.eqb_eq in E. unfold sum in *. rewrite IH. unfold given at 2. rewrite E. destruct (s (snd x)); lia.
    - unfold sum in *. now rewrite IH. }
  rewrite Z0, !sum_app, !sum_map, sum_flat_map. unfold objective. cbn [fst snd].
  replace (sum (fun a => sum (fun x => given (s (snd x)) (fst x)) (map (fun p => (- bytes g (snd p), Takes a p)) (pairs g a))) A)
    with (- sum (fun a => sum (fun p => given (s (Takes a p)) (bytes g (snd p))) (pairs g a)) A); [lia|].
  rewrite <- sum_opp. apply sum_ext. intros a _. rewrite sum_map, <- sum_opp. apply sum_ext. intros p _. cbn [fst snd].
  unfold given. destruct (s (Takes a p)); lia.
Qed.

Lemma ascending_NoDup : forall l, ascending l = true -> NoDup l.
Proof.
  assert (Q : forall l x, ascending (x :: l) = true -> forall y, In y l -> Pos.lt x y).
  { induction l as [|z l IH]; intros x S y H; [contradiction|]. cbn [ascending] in S. apply andb_true_iff in S. destruct S as [L S].
    apply Pos.ltb_lt in L. destruct H as [->|H]; [assumption|]. eapply Pos.lt_trans; eauto. }
  induction l as [|x l IH]; intros S; constructor.
  - intros I. specialize (Q l x S x I). now apply Pos.lt_irrefl in Q.
  - apply IH. destruct l; [reflexivity|]. cbn [ascending] in S. apply andb_true_iff in S. tauto.
Qed.

Lemma distinct_NoDup : forall l, distinct l = true -> NoDup l.
Proof.
  induction l as [|x l IH]; intros S; constructor; simpl in S; apply andb_true_iff in S; destruct S as [N S]; auto.
  intros I. apply taken_In in I. unfold pair_among in N. now rewrite I in N.
Qed.

Lemma speaks_is : forall A w, speaks_of A w = true ->
  match w with
  | Leaving z => existsb (fun j => none (have z j)) (zoned z) = true /\ forall j, In j (zoned z) -> lack z j <> [] /\ incl (lack z j) A
  | _ => A <> []
  end.
Proof.
  intros A w H. destruct w as [| |z]; simpl in H; try (intros ->; discriminate).
  apply andb_true_iff in H. destruct H as [H S]. split; [assumption|]. intros j J. rewrite forallb_forall in S. specialize (S j J).
  apply andb_true_iff in S. destruct S as [N S]. split; [intros E; now rewrite E in N|].
  intros u U. rewrite forallb_forall in S. now apply has_In, S.
Qed.

(** If all four parts hold, no order of the graph, whatever pairs its nodes take, has all its
    loads below B. *)
Theorem bound_is_right : forall f edges A wf B x, check_bound f edges A wf B x = (true, true, true, true) ->
  forall p taken peak, is_order (graph_of f) p ->
  (forall l v r, p = l ++ v :: r -> may_take (graph_of f) l v (taken v) /\ load (graph_of f) l v (taken v) <= peak) ->
  B <= peak.
Proof.
  intros f edges A wf B x C. unfold check_bound in C. set (w := which_of wf) in *. clearbody w. cbv zeta in C. injection C as _ Well Formula Proof_.
  unfold well_formed in Well. rewrite !andb_true_iff in Well. destruct Well as [[[N S] I] D].
  apply (no_order_is_below (graph_of f) A w B).
  - now apply ascending_NoDup.
  - split; [now apply speaks_is|]. intros a H. rewrite forallb_forall in I. specialize (I a H). now apply has_In in I.
  - intros v. simpl. unfold at_key. destruct (find v (grouped (f_pairs f))) as [l|] eqn:E; [|constructor].
    rewrite forallb_forall in D. apply distinct_NoDup. apply (D (v, l)). now apply PositiveMap.elements_correct.
  - intros s H. destruct (Z_lt_le_dec (objective (graph_of f) A s) B) as [L|]; [|assumption]. exfalso.
    unfold formula_is in Formula. apply andb_true_iff in Formula. destruct Formula as [O R].
    apply (same_eq cost_eqb) in O.
    2: { intros [a u] [b y] E. unfold cost_eqb in E. simpl in E. apply andb_true_iff in E. destruct E as [E F].
         apply Z.eqb_eq in E. apply var_eqb_eq in F. now subst. }
    set (m := table (names x)) in *.
    unfold proof_is in Proof_. erewrite derived in Proof_; [discriminate|..].
    + apply (below_valid m s). rewrite O, costs_are. exact L.
    + apply given_valid.
      * intros i c E. now rewrite PositiveMap.gempty in E.
      * apply Forall_forall. intros r Hr. apply con_of_valid. rewrite forallb_forall in R. specialize (R r Hr).
        apply justified_In in R. rewrite Forall_forall in H. now apply H.
    + unfold valid. simpl. lia.
Qed.

(** The graph and the plan have the same edges. *)
Lemma edge_in_In : forall l e, edge_in (edge_sets l) e = true -> In e l.
Proof.
  intros l [k x]. unfold edge_in, get, find, fst, snd. induction l as [|[j y] l IH]; cbn [edge_sets fold_right fst snd].
  - rewrite PositiveMap.gempty. unfold has, find. now rewrite PositiveMap.gempty.
  - fold (edge_sets l). destruct (Pos.eq_dec k j) as [->|N].
    + rewrite PositiveMap.gss. unfold has at 1, get, find. destruct (Pos.eq_dec x y) as [->|M]; [intros _; now left|].
      rewrite PositiveMap.gso by assumption. intros H. right. apply IH. exact H.
    + rewrite PositiveMap.gso by assumption. intros H. right. now apply IH.
Qed.

Theorem precedence_is : forall f edges, precedes f edges = true -> forall e, In e edges <-> In e (f_before f).
Proof.
  intros f edges H e. unfold precedes, subset in H. rewrite !andb_true_iff, !forallb_forall in H. destruct H as [[[P Q] _] _].
  split; intros I; apply edge_in_In; auto.
Qed.

Lemma ascending_app : forall l v r, ascending (l ++ v :: r) = true -> forall x, In x (v :: r) -> Pos.le v x.
Proof.
  induction l as [|y l IH]; intros v r S x H.
  - revert v S x H. induction r as [|z r IHr]; intros v S x [->|H]; try apply Pos.le_refl; [contradiction|].
    cbn [app ascending] in S. apply andb_true_iff in S. destruct S as [L S]. apply Pos.ltb_lt in L.
    apply Pos.lt_le_incl. eapply Pos.lt_le_trans; [exact L|]. now apply IHr.
  - apply (IH v r); [|assumption]. cbn [app ascending] in S. destruct (l ++ v :: r); [reflexivity|].
    now apply andb_true_iff in S.
Qed.

(** The graph of the bound has an order: that of its steps. *)
Theorem steps_are_an_order : forall f edges, precedes f edges = true -> is_order (graph_of f) (f_nodes f).
Proof.
  intros f edges H. unfold precedes in H. rewrite !andb_true_iff, forallb_forall in H. destruct H as [[_ S] E].
  split; [now apply ascending_NoDup|]. split; [reflexivity|]. intros l v r Q w B.
  unfold graph_of, before in B. apply grouped_In in B. specialize (E _ B). cbn [fst snd] in E. apply andb_true_iff in E.
  destruct E as [N L]. apply has_In in N. apply Pos.ltb_lt in L. rewrite Q in N, S. apply in_app_iff in N.
  destruct N as [N|N]; [assumption|]. pose proof (ascending_app _ _ _ S w N). exfalso. apply (Pos.lt_irrefl w).
  eapply Pos.lt_le_trans; eauto.
Qed.

Print Assumptions bound_is_right.
Print Assumptions precedence_is.
Print Assumptions steps_are_an_order.
