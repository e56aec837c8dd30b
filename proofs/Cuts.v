(** * Derivations by cutting planes

    Constraints over variables that are 0 or 1, and the rules of the proofs that internal/proof
    writes: sums, multiples, literals, saturation, quotients that are rounded up. What is derived
    holds wherever the given constraints do ([derived]); so if it is impossible, nothing keeps them. *)

From Coq Require Import List ZArith Bool Lia FSets.FMapPositive.
Import ListNotations.
Open Scope Z_scope.

(** The sum of the coefficients of true variables is at least the degree. *)
Definition term := (positive * Z)%type.
Record con := { terms : list term; degree : Z }.
Definition value (s : positive -> bool) (l : list term) := fold_right (fun x n => (if s (fst x) then snd x else 0) + n) 0 l.
Definition valid s c := degree c <= value s (terms c).

(** The sum of two lists, by variable if both are. *)
Fixpoint merge (a : list term) : list term -> list term :=
  match a with
  | [] => fun b => b
  | x :: a' => fix inner b :=
    match b with
    | [] => a
    | y :: b' =>
      match Pos.compare (fst x) (fst y) with
      | Lt => x :: merge a' b
      | Gt => y :: inner b'
      | Eq => let k := snd x + snd y in if k =? 0 then merge a' b' else (fst x, k) :: merge a' b'
      end
    end
  end.
Definition plus c d := {| terms := merge (terms c) (terms d); degree := degree c + degree d |}.
Definition times k c := {| terms := map (fun x => (fst x, k * snd x)) (terms c); degree := k * degree c |}.
Definition literal (is : bool) v := if is then {| terms := [(v, 1)]; degree := 0 |} else {| terms := [(v, -1)]; degree := -1 |}.

(** With negated variables where coefficients are below 0, all are positive, and the degree is
    larger by their sum. *)
Definition negative (l : list term) := fold_right (fun x n => Z.max 0 (- snd x) + n) 0 l.
Definition natural (l : list term) d := {| terms := l; degree := d - negative l |}.
Definition clip d (x : term) : term := (fst x, Z.max (- d) (Z.min d (snd x))).
Definition saturate c :=
  let d := degree c + negative (terms c) in
  if d <=? 0 then c else natural (map (clip d) (terms c)) d.
Definition up k z := if z <=? k then (if z <=? 0 then 0 else 1) else (z + k - 1) / k.
Definition quotient k (x : term) : term := (fst x, if snd x <=? 0 then - up k (- snd x) else up k (snd x)).
Definition divide k c := natural (map (quotient k) (terms c)) (up k (degree c + negative (terms c))).

(** A derivation in reverse Polish notation, as in VeriPB's format. *)
Inductive op := Push (id : positive) | Lit (is : bool) (v : positive) | Add | Mul (k : Z) | Sat | Div (k : Z).
Definition known := PositiveMap.t con.
Definition exec (d : known) (o : op) (st : list con) : option (list con) :=
  match o, st with
  | Push id, _ => match PositiveMap.find id d with Some c => Some (c :: st) | None => None end
  | Lit is v, _ => Some (literal is v :: st)
  | Add, c :: e :: st => Some (plus e c :: st)
  | Mul k, c :: st => if 0 <=? k then Some (times k c :: st) else None
  | Sat, c :: st => Some (saturate c :: st)
  | Div k, c :: st => if 0 <? k then Some (divide k c :: st) else None
  | _, _ => None
  end.
Fixpoint run d ops st :=
  match ops with
  | [] => match st with [c] => Some c | _ => None end
  | o :: ops => match exec d o st with Some st => run d ops st | None => None end
  end.

(** Each step adds a constraint with the next number; [None] stands for the one that is refuted.
    The last one must be impossible. *)
Definition impossible c := fold_right (fun x n => Z.max 0 (snd x) + n) 0 (terms c) <? degree c.
Fixpoint derive (below : con) (d : known) (next : positive) (steps : list (option (list op))) (c : con) :=
  match steps with
  | [] => impossible c
  | s :: steps =>
    match match s with None => Some below | Some ops => run d ops [] end with
    | Some c => derive below (PositiveMap.add next c d) (Pos.succ next) steps c
    | None => false
    end
  end.

(** ** What is derived holds *)

Lemma merge_value : forall s a b, value s (merge a b) = value s a + value s b.
Proof.
  intros s a. induction a as [|x a IH]; intros b; [reflexivity|].
  induction b as [|y b IHb]; [simpl; lia|].
  cbn [merge]. destruct (Pos.compare_spec (fst x) (fst y)) as [E|L|L].
  - destruct (snd x + snd y =? 0) eqn:K.
    + rewrite IH. apply Z.eqb_eq in K. cbn [value fold_right] in *. fold (value s a) (value s b). rewrite E. destruct (s (fst y)); lia.
    + cbn [value fold_right fst snd] in *. fold (value s (merge a b)) (value s a) (value s b). rewrite IH, E. destruct (s (fst y)); lia.
  - cbn [value fold_right] in *. fold (value s (merge a (y :: b))). rewrite IH. cbn [value fold_right]. fold (value s a) (value s b). lia.
  - change (value s (y :: merge (x :: a) b) = value s (x :: a) + value s (y :: b)).
    cbn [value fold_right] in *. fold (value s (merge (x :: a) b)). rewrite IHb. fold (value s a) (value s b). lia.
Qed.

(** The sum of the literals that are true, as positive coefficients. *)
Definition true_lits (s : positive -> bool) (l : list term) := fold_right (fun x n => Z.max 0 (if s (fst x) then snd x else - snd x) + n) 0 l.
Lemma as_lits : forall s l, value s l + negative l = true_lits s l.
Proof. intros s l. induction l as [|x l IH]; simpl; [reflexivity|]. destruct (s (fst x)); lia. Qed.
Lemma true_lits_positive : forall s l, 0 <= true_lits s l.
Proof. intros s l. induction l as [|x l IH]; simpl; lia. Qed.

Lemma clipped : forall s d l, 0 < d -> Z.min d (true_lits s l) <= true_lits s (map (clip d) l).
Proof.
  intros s d l H. induction l as [|x l IH]; simpl; [lia|].
  pose proof (true_lits_positive s l). destruct (s (fst x)); lia.
Qed.

Lemma saturated : forall s c, valid s c -> valid s (saturate c).
Proof.
  intros s c V. unfold saturate. destruct (_ <=? 0) eqn:E; [assumption|]. apply Z.leb_gt in E.
  unfold valid in *. simpl. set (d := degree c + negative (terms c)) in *.
  pose proof (as_lits s (terms c)). pose proof (as_lits s (map (clip d) (terms c))).
  pose proof (clipped s d (terms c) E). lia.
Qed.

Lemma up_above : forall k z, 0 < k -> 0 <= z -> 0 <= up k z /\ z <= k * up k z.
Proof.
  intros k z K Z0. unfold up. destruct (z <=? k) eqn:E; [apply Z.leb_le in E | apply Z.leb_gt in E].
  - destruct (z <=? 0) eqn:F; [apply Z.leb_le in F | apply Z.leb_gt in F]; lia.
  - pose proof (Z.div_mod (z + k - 1) k). pose proof (Z.mod_pos_bound (z + k - 1) k). 
    split; [apply Z.div_pos; lia | lia].
Qed.

Lemma up_least : forall k z x, 0 < k -> 0 <= x -> z <= k * x -> up k z <= x.
Proof.
  intros k z x K X L. unfold up. destruct (z <=? k) eqn:E; [apply Z.leb_le in E | apply Z.leb_gt in E].
  - destruct (z <=? 0) eqn:F; [apply Z.leb_le in F | apply Z.leb_gt in F]; [lia|]. nia.
  - apply Z.lt_succ_r. apply Z.div_lt_upper_bound; lia.
Qed.

Lemma quotients : forall s k l, 0 < k -> true_lits s l <= k * true_lits s (map (quotient k) l).
Proof.
  intros s k l K. induction l as [|x l IH]; simpl; [lia|]. rewrite Z.mul_add_distr_l.
  enough (Z.max 0 (if s (fst x) then snd x else - snd x) <=
    k * Z.max 0 (if s (fst x) then if snd x <=? 0 then - up k (- snd x) else up k (snd x) else - (if snd x <=? 0 then - up k (- snd x) else up k (snd x)))) by lia.
  destruct (snd x <=? 0) eqn:E; [apply Z.leb_le in E | apply Z.leb_gt in E].
  - destruct (up_above k (- snd x) K) as [P Q]; [lia|]. destruct (s (fst x)); nia.
  - destruct (up_above k (snd x) K) as [P Q]; [lia|]. destruct (s (fst x)); nia.
Qed.

Lemma divided : forall s k c, 0 < k -> valid s c -> valid s (divide k c).
Proof.
  intros s k c K V. unfold valid, divide in *. simpl.
  pose proof (as_lits s (terms c)). pose proof (as_lits s (map (quotient k) (terms c))).
  pose proof (quotients s k (terms c) K). pose proof (true_lits_positive s (map (quotient k) (terms c))).
  pose proof (up_least k (degree c + negative (terms c)) (true_lits s (map (quotient k) (terms c))) K). lia.
Qed.

Lemma multiplied : forall s k c, 0 <= k -> valid s c -> valid s (times k c).
Proof.
  intros s k c K V. unfold valid in *. simpl.
  assert (E : value s (map (fun x => (fst x, k * snd x)) (terms c)) = k * value s (terms c)).
  { clear V. induction (terms c) as [|x l IH]; simpl; [lia|]. fold (value s l) in *.
    rewrite IH. destruct (s (fst x)); lia. }
  rewrite E. nia.
Qed.

Definition all_valid s (d : known) := forall i c, PositiveMap.find i d = Some c -> valid s c.

Lemma exec_valid : forall s d o st st', all_valid s d -> Forall (valid s) st -> exec d o st = Some st' -> Forall (valid s) st'.
Proof.
  intros s d o st st' D F E.
  destruct o as [id|is v| |k| |k]; simpl in E.
  - destruct (PositiveMap.find id d) eqn:Q; [|discriminate]. injection E as <-. constructor; eauto.
  - injection E as <-. constructor; [|assumption]. unfold valid, literal. destruct is; simpl; destruct (s v); lia.
  - destruct st as [|c [|e st]]; try discriminate. injection E as <-.
    inversion F as [|? ? Vc F']; subst. inversion F' as [|? ? Ve F'']; subst. constructor; [|assumption].
    unfold valid in *. simpl. rewrite merge_value. lia.
  - destruct st as [|c st]; [discriminate|]. destruct (0 <=? k) eqn:K; [|discriminate]. injection E as <-.
    apply Z.leb_le in K. inversion F; subst. constructor; [now apply multiplied | assumption].
  - destruct st as [|c st]; [discriminate|]. injection E as <-. inversion F; subst. constructor; [now apply saturated | assumption].
  - destruct st as [|c st]; [discriminate|]. destruct (0 <? k) eqn:K; [|discriminate]. injection E as <-.
    apply Z.ltb_lt in K. inversion F; subst. constructor; [now apply divided | assumption].
Qed.

Lemma run_valid : forall s d ops st c, all_valid s d -> Forall (valid s) st -> run d ops st = Some c -> valid s c.
Proof.
  intros s d ops. induction ops as [|o ops IH]; intros st c D F E; simpl in E.
  - destruct st as [|e [|]]; try discriminate. injection E as <-. now inversion F.
  - destruct (exec d o st) as [st'|] eqn:X; [|discriminate]. apply (IH st' c D); [exact (exec_valid s d o st st' D F X) | exact E].
Qed.

Lemma impossible_not : forall s c, impossible c = true -> ~ valid s c.
Proof.
  intros s c I V. unfold impossible in I. apply Z.ltb_lt in I. unfold valid in V.
  enough (value s (terms c) <= fold_right (fun x n => Z.max 0 (snd x) + n) 0 (terms c)) by lia.
  clear. induction (terms c) as [|x l IH]; simpl; [lia|]. fold (value s l). destruct (s (fst x)); lia.
Qed.

(** If the last constraint is impossible, no values keep the given ones and the one to refute. *)
Theorem derived : forall s below steps d next c, valid s below -> all_valid s d -> valid s c ->
  derive below d next steps c = false.
Proof.
  intros s below steps. induction steps as [|o steps IH]; intros d next c B D C; simpl.
  - destruct (impossible c) eqn:I; [|reflexivity]. exfalso. eapply impossible_not; eauto.
  - destruct (match o with None => Some below | Some ops => run d ops [] end) as [e|] eqn:E; [|reflexivity].
    assert (valid s e) by (destruct o; [eapply run_valid; eauto | injection E as <-; assumption]).
    apply IH; auto. intros i x F. destruct (Pos.eq_dec i next) as [->|N].
    + rewrite PositiveMap.gss in F. now injection F as <-.
    + rewrite PositiveMap.gso in F by assumption. eauto.
Qed.
