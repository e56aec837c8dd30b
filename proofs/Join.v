(** * The peak of a plan, and the loads of which a bound speaks

    Plan.v says of a plan that its buffers hold what they must, and what its peak is; Bound.v, of
    the facts of a graph, that no order has a peak below a bound. If both have the same facts
    ([joined]), the loads of Model.v at the steps of the plan are at most those of its buffers
    ([the_load_is_at_most]), so that its peak is at least the bound ([peak_is_above]). *)

From Coq Require Import List ZArith Bool Lia MSets.MSetPositive FSets.FMapPositive.
Require Import Model Lemma Bound.
Require Plan.
Import ListNotations.
Open Scope Z_scope.

(** A node has the number of its step, and 1 more. *)
Definition step_of (v : positive) := Z.pos v - 1.
Definition agrees (x : tensor_fact) (t : Plan.tensor) :=
  (0 <=? t_bytes x) && (t_bytes x =? Plan.space t) &&
  (match t_maker x with Some v => step_of v | None => -1 end =? Plan.start t) &&
  Bool.eqb (t_output x) (Plan.out t) && same Z.eqb (map step_of (t_readers x)) (Plan.reads t).
Fixpoint nodup s (l : list positive) :=
  match l with [] => true | x :: l => negb (PositiveSet.mem x s) && nodup (PositiveSet.add x s) l end.

(** What lies over another tensor in its buffer is a pair of its maker. *)
Fixpoint paired m (l : list Plan.tensor) :=
  match l with
  | t :: (u :: _) as l => pair_among (Plan.ident u, Plan.ident t) (at_key m (Z.to_pos (Plan.start u + 1))) && paired m l
  | _ => true
  end.

(** The plan and the facts of the bound speak of the same tensors, workspaces and pairs, each tensor
    lies in one place, and all other readers of a parameter have run when it is written over. *)
Definition joined (p : Plan.plan) (f : facts) :=
  let tensors := table (f_tensors f) in
  let pairs := grouped (f_pairs f) in
  let isnode := has (set_of (f_nodes f)) in
  forallb (fun v => Z.pos v <=? Plan.steps p) (f_nodes f) &&
  match f_nodes f with v :: _ => Pos.eqb v 1 | [] => true end &&
  same (fun a b => (fst a =? fst b) && (snd a =? snd b)) (map (fun w => (step_of (fst w), snd w)) (f_work f)) (Plan.works p) &&
  same Pos.eqb (map fst (f_tensors f)) (Plan.wanted p) &&
  nodup PositiveSet.empty (map fst (f_tensors f)) &&
  nodup PositiveSet.empty (map Plan.ident (flat_map Plan.held (Plan.buffers p))) &&
  forallb (fun b => forallb (fun t => match find (Plan.ident t) tensors with Some x => agrees x t | None => false end) (Plan.held b) &&
    paired pairs (Plan.held b)) (Plan.buffers p) &&
  forallb (fun x => forallb isnode (t_readers (snd x))) (f_tensors f) &&
  forallb (fun x => forallb (fun r => isnode r && Pos.ltb r (w_maker (snd x))) (w_others (snd x))) (f_written f).

(** ** What is joined agrees *)

(** Whether a tensor counts at a step, by the plan, and the pairs that are taken there. *)
Definition counted s (t : Plan.tensor) :=
  (Plan.start t =? s) || (Plan.start t <? s) && (Plan.out t || existsb (fun r => s <=? r) (Plan.reads t) ||
    (Plan.start t =? -1) && none (Plan.reads t) && (s =? 0)).
Fixpoint over_at s (l : list Plan.tensor) : list (Plan.tensor * Plan.tensor) :=
  match l with
  | t :: (u :: _) as l => (if (Plan.start u =? s) && counted s t then [(u, t)] else []) ++ over_at s l
  | _ => []
  end.
Definition idents (q : Plan.tensor * Plan.tensor) := (Plan.ident (fst q), Plan.ident (snd q)).
Definition taken_at p v := map idents (flat_map (fun b => over_at (step_of v) (Plan.held b)) (Plan.buffers p)).
Definition weight s l := sum (fun t => given (counted s t) (Plan.space t)) l - sum (fun q => Plan.space (snd q)) (over_at s l).

Lemma counted_started : forall s t, counted s t = true -> Plan.start t <= s.
Proof.
  intros s t H. unfold counted in H. apply orb_true_iff in H. destruct H as [H|H]; [apply Z.eqb_eq in H; lia|].
  apply andb_true_iff in H. destruct H as [H _]. apply Z.ltb_lt in H. lia.
Qed.

(** A tensor that counts is written over at this step, or later. *)
Lemma counted_until : forall s t u, counted s t = true -> Plan.gives_way t u = true -> s <= Plan.start u.
Proof.
  intros s t u C G. unfold Plan.gives_way in G. Plan.split_and.
  match goal with H : negb _ = true |- _ => apply negb_true_iff in H; rename H into O end.
  match goal with H : forallb _ _ = true |- _ => rewrite forallb_forall in H; rename H into R end.
  unfold counted in C. rewrite O in C. apply orb_true_iff in C. destruct C as [C|C]; [apply Z.eqb_eq in C; lia|].
  apply andb_true_iff in C. destruct C as [_ C]. simpl in C. apply orb_true_iff in C. destruct C as [C|C].
  - apply existsb_exists in C. destruct C as [r [I L]]. specialize (R r I). apply Z.leb_le in L, R. lia.
  - rewrite !andb_true_iff in C. destruct C as [[C _] S]. apply Z.eqb_eq in C, S. lia.
Qed.

Lemma weight_none : forall s l, (forall t, In t l -> counted s t = false) -> weight s l = 0.
Proof.
  intros s l H. unfold weight. rewrite sum_zero by (intros t T; now rewrite H).
  enough (E : over_at s l = []) by (rewrite E; reflexivity).
  induction l as [|t l IH]; [reflexivity|]. destruct l as [|u l]; [reflexivity|]. cbn [over_at].
  rewrite (H t) by (now left). rewrite andb_false_r. apply IH. intros x X. apply H. now right.
Qed.

Lemma chain_starts : forall l u x, Plan.chain (u :: l) = true -> In x (u :: l) -> Plan.start u <= Plan.start x.
Proof.
  intros l u x C [<-|I]; [lia|]. pose proof (Plan.chain_all l u x C I) as G. unfold Plan.gives_way in G. Plan.split_and. lia.
Qed.

Lemma weight_at_most : forall s B l, Plan.chain l = true -> 0 <= B -> (forall t, In t l -> Plan.space t <= B) -> weight s l <= B.
Proof.
  intros s B l C B0 M. induction l as [|t l IH]; [unfold weight; simpl; lia|].
  destruct l as [|u l].
  - unfold weight. cbn [sum fold_right over_at]. pose proof (M t (or_introl eq_refl)). destruct (counted s t); simpl; lia.
  - assert (G : Plan.gives_way t u = true) by (apply (Plan.chain_all (u :: l)); [assumption | now left]).
    assert (C' : Plan.chain (u :: l) = true) by (cbn [Plan.chain] in C; Plan.split_and; assumption).
    assert (W : weight s (t :: u :: l) = given (counted s t) (Plan.space t) - given ((Plan.start u =? s) && counted s t) (Plan.space t) + weight s (u :: l)).
    { unfold weight. cbn [over_at]. rewrite sum_app. change (sum (fun t => given (counted s t) (Plan.space t)) (t :: u :: l)) with
        (given (counted s t) (Plan.space t) + sum (fun t => given (counted s t) (Plan.space t)) (u :: l)).
      destruct ((Plan.start u =? s) && counted s t); cbn [sum fold_right given snd]; lia. }
    rewrite W. specialize (IH C'). assert (I : weight s (u :: l) <= B) by (apply IH; intros x X; apply M; now right).
    destruct (counted s t) eqn:K; [|rewrite andb_false_r; simpl; lia].
    destruct (Plan.start u =? s) eqn:E; [simpl; lia|]. apply Z.eqb_neq in E.
    pose proof (counted_until _ _ _ K G) as U. rewrite (weight_none s (u :: l)).
    + pose proof (M t (or_introl eq_refl)). simpl. lia.
    + intros x X. destruct (counted s x) eqn:Q; [|reflexivity]. apply counted_started in Q.
      pose proof (chain_starts l u x C' X). lia.
Qed.

(** A buffer is live while one of its tensors counts. *)
Lemma counted_live : forall p b t s, Plan.lives p b t = true -> counted s t = true -> 0 <= s < Plan.steps p -> Plan.live_at s b = true.
Proof.
  intros p b t s L C S. pose proof (counted_started _ _ C) as Q. unfold Plan.lives in L. Plan.split_and.
  match goal with H : forallb _ _ = true |- _ => rewrite forallb_forall in H; rename H into R end.
  match goal with H : _ || _ = true |- _ => rename H into O end.
  unfold Plan.live_at. apply andb_true_iff. split; apply Z.leb_le; [lia|].
  unfold counted in C. apply orb_true_iff in C. destruct C as [C|C]; [apply Z.eqb_eq in C; lia|].
  apply andb_true_iff in C. destruct C as [_ C]. rewrite !orb_true_iff in C. destruct C as [[C|C]|C].
  - rewrite C in O. simpl in O. apply Z.eqb_eq in O. lia.
  - apply existsb_exists in C. destruct C as [r [I E]]. specialize (R r I). apply andb_true_iff in R. destruct R as [_ R].
    apply Z.leb_le in E, R. lia.
  - rewrite !andb_true_iff in C. destruct C as [_ E]. apply Z.eqb_eq in E. lia.
Qed.

Lemma buffer_weight : forall p b s, Plan.inside p b = true -> 0 <= s < Plan.steps p ->
  weight s (Plan.held b) <= if Plan.live_at s b then Plan.size b else 0.
Proof.
  intros p b s I S. unfold Plan.inside in I. Plan.split_and.
  match goal with H : forallb _ _ = true |- _ => rewrite forallb_forall in H; rename H into L end.
  destruct (Plan.live_at s b) eqn:V.
  - apply weight_at_most; try assumption. intros t T. specialize (L t T). unfold Plan.lives in L. Plan.split_and. assumption.
  - rewrite weight_none; [lia|]. intros t T. destruct (counted s t) eqn:C; [|reflexivity].
    pose proof (counted_live _ _ _ _ (L t T) C S). congruence.
Qed.

(** ** Sums and lists *)

Lemma nodup_NoDup : forall l s, nodup s l = true -> NoDup l /\ forall x, In x l -> PositiveSet.mem x s = false.
Proof.
  induction l as [|x l IH]; intros s H; [split; [constructor | intros x []]|].
  simpl in H. apply andb_true_iff in H. destruct H as [M H]. apply negb_true_iff in M. destruct (IH _ H) as [N F]. split.
  - constructor; [|assumption]. intros I. specialize (F x I).
    assert (Q : PositiveSet.mem x (PositiveSet.add x s) = true) by (apply PositiveSet.mem_spec, PositiveSet.add_spec; now left). congruence.
  - intros y [<-|I]; [assumption|]. specialize (F y I). destruct (PositiveSet.mem y s) eqn:E; [|reflexivity].
    assert (Q : PositiveSet.mem y (PositiveSet.add x s) = true) by (apply PositiveSet.mem_spec, PositiveSet.add_spec; right; now apply PositiveSet.mem_spec). congruence.
Qed.

Lemma sum_le : forall {A} (f h : A -> Z) l, (forall x, In x l -> f x <= h x) -> sum f l <= sum h l.
Proof.
  intros A f h l H. induction l as [|x l IH]; simpl; [lia|]. pose proof (H x (or_introl eq_refl)).
  assert (sum f l <= sum h l) by (apply IH; intros y Y; apply H; now right). unfold sum in *. lia.
Qed.

Lemma sum_sub : forall {A} (f h : A -> Z) l, sum (fun x => f x - h x) l = sum f l - sum h l.
Proof. intros A f h l. unfold sum. induction l as [|x l IH]; simpl; lia. Qed.

Lemma sum_nonneg : forall {A} (f : A -> Z) l, (forall x, 0 <= f x) -> 0 <= sum f l.
Proof. intros A f l H. induction l as [|x l IH]; simpl; [lia|]. pose proof (H x). unfold sum in *. lia. Qed.

Lemma sum_incl : forall (f : positive -> Z) l m, NoDup l -> incl l m -> (forall x, 0 <= f x) -> sum f l <= sum f m.
Proof.
  intros f l. induction l as [|x l IH]; intros m N I P; [now apply sum_nonneg|].
  inversion N as [|? ? X N']; subst. destruct (in_split x m (I x (or_introl eq_refl))) as [a [b ->]].
  assert (Q : sum f l <= sum f (a ++ b)).
  { apply IH; try assumption. intros y Y. specialize (I y (or_intror Y)). rewrite in_app_iff in *. simpl in I.
    destruct I as [I|[<-|I]]; auto. contradiction. }
  rewrite sum_app in *. unfold sum in *. simpl. lia.
Qed.

Lemma NoDup_parts : forall {A} (a b c d : list A), NoDup (a ++ b) -> NoDup c -> NoDup d -> incl c a -> incl d b -> NoDup (c ++ d).
Proof.
  intros A a b c d N C D IC ID. induction C as [|x c X C IH]; [assumption|]. simpl. constructor.
  - rewrite in_app_iff. intros [H|H]; [contradiction|]. assert (In x a) by (apply IC; now left). apply ID in H.
    destruct (in_split x a) as [e [g ->]]; [assumption|]. rewrite <- app_assoc in N. simpl in N. apply NoDup_remove_2 in N.
    apply N. rewrite !in_app_iff. auto.
  - apply IH. intros y Y. apply IC. now right.
Qed.

Lemma NoDup_halves : forall {A} (a b : list A), NoDup (a ++ b) -> NoDup a /\ NoDup b.
Proof.
  intros A a b. induction a as [|x a IH]; intros N; [split; [constructor | assumption]|].
  inversion N as [|? ? X N']; subst. destruct (IH N'). split; [|assumption]. constructor; [|assumption].
  intros I. apply X, in_app_iff. now left.
Qed.

Lemma over_parts : forall s l, NoDup (map Plan.ident l) ->
  (NoDup (map (fun q => Plan.ident (fst q)) (over_at s l)) /\ incl (map (fun q => Plan.ident (fst q)) (over_at s l)) (map Plan.ident (tl l))) /\
  (NoDup (map (fun q => Plan.ident (snd q)) (over_at s l)) /\ incl (map (fun q => Plan.ident (snd q)) (over_at s l)) (map Plan.ident l)).
Proof.
  intros s l. induction l as [|t l IH]; intros N; [simpl; repeat split; try apply NoDup_nil; intros x []|].
  destruct l as [|u l]; [simpl; repeat split; try apply NoDup_nil; intros x []|].
  inversion N as [|? ? T N']; subst. destruct (IH N') as [[F1 F2] [S1 S2]]. cbn [over_at tl].
  destruct ((Plan.start u =? s) && counted s t); cbn [app map fst snd].
  - inversion N' as [|? ? U N'']; subst. repeat split.
    + constructor; [|assumption]. intros I. apply F2 in I. cbn [tl] in I. contradiction.
    + intros x [<-|X]; [now left|]. right. now apply F2.
    + constructor; [|assumption]. intros I. apply S2 in I. contradiction.
    + intros x [<-|X]; [now left|]. right. now apply S2.
  - repeat split; try assumption.
    + intros x X. right. now apply F2.
    + intros x X. right. now apply S2.
Qed.

Lemma over_all : forall s bs, NoDup (map Plan.ident (flat_map Plan.held bs)) ->
  let q := flat_map (fun b => over_at s (Plan.held b)) bs in
  (NoDup (map (fun x => Plan.ident (fst x)) q) /\ incl (map (fun x => Plan.ident (fst x)) q) (map Plan.ident (flat_map Plan.held bs))) /\
  (NoDup (map (fun x => Plan.ident (snd x)) q) /\ incl (map (fun x => Plan.ident (snd x)) q) (map Plan.ident (flat_map Plan.held bs))).
Proof.
  intros s bs. induction bs as [|b bs IH]; intros N; [simpl; repeat split; try apply NoDup_nil; intros x []|].
  cbn [flat_map] in *. rewrite map_app in N. destruct (NoDup_halves _ _ N) as [N1 N2]. specialize (IH N2). cbv zeta in IH.
  destruct (over_parts s _ N1) as [[F1 F2] [S1 S2]]. destruct IH as [[G1 G2] [T1 T2]].
  assert (F3 : incl (map (fun q => Plan.ident (fst q)) (over_at s (Plan.held b))) (map Plan.ident (Plan.held b))).
  { intros x X. apply F2 in X. destruct (Plan.held b); [contradiction | now right]. }
  cbv zeta. rewrite !map_app. repeat split.
  - eapply NoDup_parts; eauto.
  - apply incl_app_app; assumption.
  - eapply NoDup_parts; eauto.
  - apply incl_app_app; assumption.
Qed.

Lemma over_In : forall s l u t, In (u, t) (over_at s l) ->
  Plan.start u = s /\ exists a c, l = a ++ t :: u :: c.
Proof.
  intros s l u t. induction l as [|x l IH]; intros H; [contradiction|]. destruct l as [|y l]; [contradiction|].
  cbn [over_at] in H. apply in_app_iff in H. destruct H as [H|H].
  - destruct (_ && _) eqn:E in H; [|contradiction]. destruct H as [H|[]]. injection H as -> ->.
    apply andb_true_iff in E. destruct E as [E _]. apply Z.eqb_eq in E. split; [assumption|]. now exists [], l.
  - destruct (IH H) as [S [a [c E]]]. split; [assumption|]. exists (x :: a), c. rewrite E. reflexivity.
Qed.

Lemma paired_In : forall m l a t u c, paired m l = true -> l = a ++ t :: u :: c ->
  In (Plan.ident u, Plan.ident t) (at_key m (Z.to_pos (Plan.start u + 1))).
Proof.
  intros m l a. revert l. induction a as [|x a IH]; intros l t u c P E; subst l; cbn [app paired] in P.
  - apply andb_true_iff in P. destruct P as [P _]. now apply pair_among_In.
  - destruct (a ++ t :: u :: c) eqn:Q; [now destruct a|]. rewrite <- Q in P. apply andb_true_iff in P. destruct P as [_ P]. eapply IH; eauto.
Qed.

Lemma ascending_before : forall l v r x, ascending (l ++ v :: r) = true -> In x l -> Pos.lt x v.
Proof.
  induction l as [|y l IH]; intros v r x S I; [contradiction|]. cbn [app] in S.
  assert (T : ascending (l ++ v :: r) = true) by (cbn [ascending] in S; destruct (l ++ v :: r); [reflexivity | now apply andb_true_iff in S]).
  destruct I as [<-|I]; [|eapply IH; eauto].
  pose proof (ascending_app [] y (l ++ v :: r) S v) as Q. cbn [app] in Q.
  assert (Pos.le y v) by (apply Q; right; apply in_app_iff; right; now left).
  pose proof (ascending_NoDup (y :: l ++ v :: r) S) as N. inversion N as [|? ? X N']; subst.
  apply Pos.le_lteq in H. destruct H as [H| ->]; [assumption|]. exfalso. apply X. apply in_app_iff. right. now left.
Qed.

Section Joined.
  Variables (p : Plan.plan) (f : facts) (l r : list positive) (v : positive).
  Hypothesis R : Plan.right p.
  Hypothesis J : joined p f = true.
  Hypothesis A : ascending (f_nodes f) = true.
  Hypothesis E : f_nodes f = l ++ v :: r.
  Let g := graph_of f.
  Let s := step_of v.

  Lemma parts :
    (forall u, In u (f_nodes f) -> Z.pos u <= Plan.steps p) /\ (l = [] -> v = 1%positive) /\
    map (fun w => (step_of (fst w), snd w)) (f_work f) = Plan.works p /\
    map fst (f_tensors f) = Plan.wanted p /\ NoDup (map fst (f_tensors f)) /\
    NoDup (map Plan.ident (flat_map Plan.held (Plan.buffers p))) /\
    (forall b, In b (Plan.buffers p) -> (forall t, In t (Plan.held b) -> exists x, find (Plan.ident t) (table (f_tensors f)) = Some x /\ agrees x t = true) /\
      paired (grouped (f_pairs f)) (Plan.held b) = true) /\
    (forall i x, find i (table (f_tensors f)) = Some x -> forall y, In y (t_readers x) -> In y (f_nodes f)) /\
    (forall i x, find i (table (f_written f)) = Some x -> forall y, In y (w_others x) -> In y (f_nodes f) /\ Pos.lt y (w_maker x)).
  Proof.
    unfold joined in J. rewrite !andb_true_iff in J. destruct J as [[[[[[[[J1 J2] J3] J4] J5] J6] J7] J8] J9].
    rewrite forallb_forall in J1, J7, J8, J9. split; [intros u U; now apply Z.leb_le, J1|].
    split; [intros ->; rewrite E in J2; now apply Pos.eqb_eq in J2|].
    split.
    { apply (same_eq (fun a b => (fst a =? fst b) && (snd a =? snd b))); [|assumption].
      intros [a b] [c d] Q. simpl in Q. apply andb_true_iff in Q. destruct Q as [Q1 Q2]. apply Z.eqb_eq in Q1, Q2. now subst. }
    split; [apply (same_eq Pos.eqb); [intros x y Q; now apply Pos.eqb_eq | assumption]|].
    split; [now apply nodup_NoDup in J5|]. split; [now apply nodup_NoDup in J6|].
    split; [|split].
    - intros b B. specialize (J7 b B). apply andb_true_iff in J7. destruct J7 as [T P]. split; [|assumption].
      intros t I. rewrite forallb_forall in T. specialize (T t I). destruct (find _ _) as [x|]; [|discriminate]. now exists x.
    - intros i x F y Y. apply table_In in F. specialize (J8 _ F). cbn [snd] in J8. rewrite forallb_forall in J8. now apply has_In, J8.
    - intros i x F y Y. apply table_In in F. specialize (J9 _ F). cbn [snd] in J9. rewrite forallb_forall in J9. specialize (J9 y Y).
      apply andb_true_iff in J9. destruct J9 as [N L]. apply has_In in N. now apply Pos.ltb_lt in L.
  Qed.

  Lemma has_run : forall y, In y (f_nodes f) -> Pos.lt y v -> In y l.
  Proof.
    intros y I L. rewrite E in I. apply in_app_iff in I. destruct I as [I|I]; [assumption|]. exfalso.
    pose proof A as S. rewrite E in S. pose proof (ascending_app l v r S y I). apply (Pos.lt_irrefl v). eapply Pos.le_lt_trans; eauto.
  Qed.
  Lemma ran_before : forall y, In y l -> Pos.lt y v.
  Proof. intros y I. pose proof A as S. rewrite E in S. eapply ascending_before; eauto. Qed.

  Lemma s_range : 0 <= s < Plan.steps p.
  Proof.
    destruct parts as [N _]. specialize (N v). rewrite E in N. assert (Z.pos v <= Plan.steps p) by (apply N, in_app_iff; right; now left).
    unfold s, step_of. lia.
  Qed.

  (** What counts by the graph counts by the plan. *)
  Lemma left_reads : forall x t, agrees x t = true -> (forall y, In y (t_readers x) -> In y (f_nodes f)) ->
    left_of l (t_readers x) = true -> existsb (fun r => s <=? r) (Plan.reads t) = true.
  Proof.
    intros x t G N L. unfold left_of in L. apply existsb_exists in L. destruct L as [y [Y L]]. apply negb_true_iff in L.
    unfold agrees in G. rewrite !andb_true_iff in G. destruct G as [_ G]. apply (same_eq Z.eqb) in G; [|intros a b Q; now apply Z.eqb_eq].
    apply existsb_exists. exists (step_of y). split; [rewrite <- G; now apply in_map|]. apply Z.leb_le. unfold s, step_of.
    destruct (Pos.lt_total y v) as [Q|[->|Q]]; [|lia|lia]. exfalso. pose proof (has_run y (N y Y) Q) as I. apply ran_In in I. congruence.
  Qed.

  Lemma counts_counted : forall t x, find (Plan.ident t) (table (f_tensors f)) = Some x -> agrees x t = true ->
    counts g l v (Plan.ident t) = true -> counted s t = true.
  Proof.
    intros t x F G C. destruct parts as [_ [First [_ [_ [_ [_ [_ [N _]]]]]]]]. specialize (N _ _ F).
    pose proof (left_reads x t G N) as L. pose proof s_range as S.
    assert (M : maker g (Plan.ident t) = t_maker x) by (unfold g, graph_of, get; cbn [maker]; now rewrite F).
    assert (O : output g (Plan.ident t) = t_output x) by (unfold g, graph_of, get; cbn [output]; now rewrite F).
    assert (D : readers g (Plan.ident t) = t_readers x) by (unfold g, graph_of, get; cbn [readers]; now rewrite F).
    unfold agrees in G. rewrite !andb_true_iff in G. destruct G as [[[_ G1] G2] G3]. apply Z.eqb_eq in G1. apply eqb_prop in G2.
    unfold counts, makes, live in C. rewrite M, O, D in C. unfold counted. rewrite <- G2.
    destruct (t_maker x) as [m|].
    - apply orb_true_iff in C. destruct C as [C|C].
      + apply Pos.eqb_eq in C. subst m. apply orb_true_iff. left. apply Z.eqb_eq. now rewrite <- G1.
      + apply andb_true_iff in C. destruct C as [I C]. apply ran_In, ran_before in I. apply orb_true_iff. right. apply andb_true_iff. split.
        * apply Z.ltb_lt. rewrite <- G1. unfold s, step_of. lia.
        * apply orb_true_iff in C. destruct C as [->|C]; [reflexivity|]. rewrite (L C). rewrite orb_true_r. reflexivity.
    - cbn [orb] in C. apply orb_true_iff. right. apply andb_true_iff. split; [apply Z.ltb_lt; lia|].
      rewrite !orb_true_iff in C. destruct C as [[C|C]|C].
      + rewrite C. reflexivity.
      + rewrite (L C). now rewrite orb_true_r.
      + apply andb_true_iff in C. destruct C as [C1 C2]. apply orb_true_iff. right. rewrite <- G1. cbn [Z.eqb].
        apply (same_eq Z.eqb) in G3; [|intros a b Q; now apply Z.eqb_eq]. rewrite <- G3.
        destruct (t_readers x); [|discriminate]. destruct l; [|discriminate]. unfold s. rewrite (First eq_refl). reflexivity.
  Qed.

  Lemma bytes_are : forall t x, find (Plan.ident t) (table (f_tensors f)) = Some x -> agrees x t = true ->
    bytes g (Plan.ident t) = Plan.space t /\ 0 <= Plan.space t.
  Proof.
    intros t x F G. unfold g, graph_of, get. cbn [bytes]. rewrite F. unfold agrees in G. rewrite !andb_true_iff in G.
    destruct G as [[[[G0 G] _] _] _]. apply Z.eqb_eq in G. apply Z.leb_le in G0. lia.
  Qed.

  Lemma bytes_nonneg : forall i, In i (map Plan.ident (flat_map Plan.held (Plan.buffers p))) -> 0 <= bytes g i.
  Proof.
    intros i I. apply in_map_iff in I. destruct I as [t [<- I]]. apply in_flat_map in I. destruct I as [b [B T]].
    destruct parts as [_ [_ [_ [_ [_ [_ [Q _]]]]]]]. destruct (Q b B) as [H _]. destruct (H t T) as [x [F G]].
    destruct (bytes_are t x F G). lia.
  Qed.

  Lemma may : may_take g l v (taken_at p v).
  Proof.
    destruct parts as [_ [_ [_ [_ [_ [N [Q [RN _]]]]]]]]. destruct (over_all s (Plan.buffers p) N) as [[F1 _] [S1 _]].
    assert (K : forall q, In q (taken_at p v) -> exists b t u a c x, In b (Plan.buffers p) /\ Plan.held b = a ++ t :: u :: c /\ Plan.start u = s /\
      q = (Plan.ident u, Plan.ident t) /\ find (Plan.ident t) (table (f_tensors f)) = Some x /\ agrees x t = true /\ In q (pairs g v)).
    { intros q H. apply in_map_iff in H. destruct H as [[u t] [<- H]]. apply in_flat_map in H. destruct H as [b [B H]].
      apply over_In in H. destruct H as [S [a [c L]]]. destruct (Q b B) as [T P].
      destruct (T t) as [x [F G]]; [rewrite L, in_app_iff; right; now left|].
      exists b, t, u, a, c, x. repeat split; auto. unfold idents. cbn [fst snd].
      pose proof (paired_In _ _ _ _ _ _ P L) as W. rewrite S in W. unfold s, step_of in W. replace (Z.pos v - 1 + 1) with (Z.pos v) in W by lia. exact W. }
    repeat split.
    - intros q H. destruct (K q H) as [b [t [u [a [c [x [_ [_ [_ [_ [_ [_ I]]]]]]]]]]]]. exact I.
    - unfold taken_at. rewrite map_map. exact F1.
    - unfold taken_at. rewrite map_map. exact S1.
    - intros q y H Y. destruct (K q H) as [b [t [u [a [c [x [B [L [S [-> [F [G _]]]]]]]]]]]]. cbn [snd] in Y.
      assert (Y' : In y (t_readers x)) by (revert Y; unfold g, graph_of, get; cbn [readers]; now rewrite F).
      pose proof (RN _ _ F y Y') as YN. apply Plan.right_parts in R. destruct R as [_ [I _]]. rewrite forallb_forall in I. specialize (I b B).
      unfold Plan.inside in I. Plan.split_and. match goal with C : Plan.chain _ = true |- _ => rewrite L in C; pose proof (Plan.chain_gives_way _ t u a [] c C eq_refl) as W end.
      unfold Plan.gives_way in W. Plan.split_and.
      match goal with H : forallb (fun r => r <=? Plan.start u) _ = true |- _ => rewrite forallb_forall in H; rename H into Z0 end.
      unfold agrees in G. rewrite !andb_true_iff in G. destruct G as [_ G]. apply (same_eq Z.eqb) in G; [|intros e h X; now apply Z.eqb_eq].
      specialize (Z0 (step_of y)). rewrite <- G in Z0. specialize (Z0 (in_map step_of _ _ Y')). apply Z.leb_le in Z0. rewrite S in Z0. unfold s, step_of in Z0.
      destruct (Pos.eq_dec y v) as [->|M]; [now left|]. right. apply has_run; [assumption|]. lia.
  Qed.

  Lemma nothing_elsewhere : forall e, elsewhere g l v e = false.
  Proof.
    intros e. destruct parts as [_ [_ [_ [_ [_ [_ [_ [_ W]]]]]]]]. unfold elsewhere.
    destruct (left_of l (others g e)) eqn:L; [|reflexivity]. cbn [andb].
    unfold left_of in L. apply existsb_exists in L. destruct L as [y [Y L]]. apply negb_true_iff in L.
    unfold g, graph_of, get in *. cbn [others wmaker at_once later] in *. destruct (find e (table (f_written f))) as [x|] eqn:F; [|contradiction].
    destruct (W e x F y Y) as [N LT].
    assert (Q : forall m, Pos.eqb m v = true \/ ran l m = true -> m = w_maker x -> False).
    { intros m [M|M] ->.
      - apply Pos.eqb_eq in M. rewrite M in LT. pose proof (has_run y N LT) as I. apply ran_In in I. congruence.
      - apply ran_In, ran_before in M. pose proof (has_run y N (Pos.lt_trans _ _ _ LT M)) as I. apply ran_In in I. congruence. }
    destruct (Pos.eqb (w_maker x) v) eqn:M; [exfalso; eapply Q; eauto|]. destruct (ran l (w_maker x)) eqn:M'; [exfalso; eapply Q; eauto|]. reflexivity.
  Qed.

  (** The workspace of the node is one buffer, those of its tensors are others. *)
  Definition worked b := match Plan.held b with [] => 0 | _ => if Plan.live_at s b then Plan.size b else 0 end.
  Lemma work_at_most : sum worked (Plan.buffers p) + work g v <= Plan.load (Plan.buffers p) s.
  Proof.
    pose proof R as R'. apply Plan.right_parts in R'. destruct R' as [_ [I [_ [_ W]]]]. rewrite forallb_forall in I.
    destruct parts as [_ [_ [Works _]]].
    assert (P : forall bs, incl bs (Plan.buffers p) -> sum worked bs <= Plan.load bs s).
    { induction bs as [|b bs IH]; intros H; simpl; [lia|].
      assert (sum worked bs <= Plan.load bs s) by (apply IH; intros x X; apply H; now right).
      specialize (I b (H b (or_introl eq_refl))). unfold Plan.inside in I. Plan.split_and. unfold worked at 1. unfold sum, Plan.load in *.
      destruct (Plan.held b), (Plan.live_at s b); lia. }
    unfold work, g, graph_of, get. destruct (find v (table (f_work f))) as [n|] eqn:F; [|specialize (P _ (incl_refl _)); lia].
    apply table_In in F. assert (K : In (s, n) (Plan.works p)) by (rewrite <- Works; apply in_map_iff; now exists (v, n)).
    apply Plan.each_works in R. destruct R as [_ Each]. destruct (Each s n K) as [i [b [B [H [L [Le _]]]]]]. apply nth_error_In in B.
    destruct (in_split b _ B) as [bs [cs Q]].
    assert (P1 : sum worked bs <= Plan.load bs s) by (apply P; rewrite Q; intros x X; apply in_app_iff; now left).
    assert (P2 : sum worked cs <= Plan.load cs s) by (apply P; rewrite Q; intros x X; apply in_app_iff; right; now right).
    rewrite Q, sum_app, Plan.load_app. unfold sum in *. cbn [fold_right Plan.load]. unfold worked at 2. rewrite H.
    assert (V : Plan.live_at s b = true) by (unfold Plan.live_at; apply andb_true_iff; split; apply Z.leb_le; lia).
    rewrite V. unfold Plan.load in *. lia.
  Qed.

  Lemma the_load_is_at_most : load g l v (taken_at p v) <= Plan.load (Plan.buffers p) s.
  Proof.
    pose proof R as R'. apply Plan.right_parts in R'. destruct R' as [OC [I _]]. rewrite forallb_forall in I.
    destruct parts as [_ [_ [_ [Wanted [ND [_ [Q _]]]]]]].
    unfold load. rewrite (sum_zero (fun e => given (elsewhere g l v e) (wbytes g e))) by (intros e _; now rewrite nothing_elsewhere).
    pose proof work_at_most as W.
    enough (sum (fun t => given (counts g l v t) (bytes g t)) (tensors g) - sum (fun q => bytes g (snd q)) (taken_at p v) <= sum worked (Plan.buffers p)) by lia.
    assert (T : sum (fun t => given (counts g l v t) (bytes g t)) (tensors g) <=
      sum (fun t => given (counted s t) (Plan.space t)) (flat_map Plan.held (Plan.buffers p))).
    { set (h := fun i => Z.max 0 (given (counts g l v i) (bytes g i))).
      apply Z.le_trans with (sum h (map Plan.ident (flat_map Plan.held (Plan.buffers p)))).
      - apply Z.le_trans with (sum h (tensors g)); [apply sum_le; intros; unfold h; lia|].
        apply sum_incl; [assumption | | intros; unfold h; lia].
        intros i Hi. unfold g, graph_of in Hi. cbn [tensors] in Hi. rewrite Wanted in Hi.
        destruct (Plan.each_is_held p R i Hi) as [b [t [B [Ht [<- _]]]]]. apply in_map. apply in_flat_map. now exists b.
      - rewrite sum_map. apply sum_le. intros t Ht. apply in_flat_map in Ht. destruct Ht as [b [B Ht]].
        destruct (Q b B) as [P _]. destruct (P t Ht) as [x [F G]]. destruct (bytes_are t x F G) as [E1 E2]. unfold h. rewrite E1.
        destruct (counts g l v (Plan.ident t)) eqn:C; [rewrite (counts_counted t x F G C); simpl; lia|].
        simpl. destruct (counted s t); simpl; lia. }
    assert (U : sum (fun q => bytes g (snd q)) (taken_at p v) = sum (fun q => Plan.space (snd q)) (flat_map (fun b => over_at s (Plan.held b)) (Plan.buffers p))).
    { unfold taken_at. rewrite sum_map. apply sum_ext. intros [u t] H. apply in_flat_map in H. destruct H as [b [B H]].
      apply over_In in H. destruct H as [_ [a [c L]]]. destruct (Q b B) as [P _]. destruct (P t) as [x [F G]]; [rewrite L, in_app_iff; right; now left|].
      unfold idents. cbn [fst snd]. now destruct (bytes_are t x F G). }
    rewrite U. rewrite !sum_flat_map in *.
    apply Z.le_trans with (sum (fun b => weight s (Plan.held b)) (Plan.buffers p)).
    - unfold weight. rewrite sum_sub. lia.
    - apply sum_le. intros b B. pose proof (buffer_weight p b s (I b B) s_range) as K. unfold worked.
      destruct (Plan.held b) eqn:H; [unfold weight; simpl; lia | assumption].
  Qed.
End Joined.

(** Let the checkers accept a plan and a bound, and let both have the same facts. Then the loads of
    the graph in the order of the plan, with the pairs that its buffers take, are at most its peak,
    and the bound is, too. *)
Theorem peak_is_above : forall p f edges A w B x, Plan.right p -> joined p f = true ->
  check_bound f edges A w B x = (true, true, true, true) ->
  (forall l v r, f_nodes f = l ++ v :: r -> may_take (graph_of f) l v (taken_at p v) /\ load (graph_of f) l v (taken_at p v) <= Plan.peak p) /\
  B <= Plan.peak p.
Proof.
  intros p f edges A w B x R J C.
  assert (P : precedes f edges = true) by (unfold check_bound in C; now injection C).
  assert (S : ascending (f_nodes f) = true) by (unfold precedes in P; rewrite !andb_true_iff in P; tauto).
  assert (L : forall l v r, f_nodes f = l ++ v :: r -> may_take (graph_of f) l v (taken_at p v) /\ load (graph_of f) l v (taken_at p v) <= Plan.peak p).
  { intros l v r E. split; [exact (may p f l r v R J S E)|].
    apply Z.le_trans with (Plan.load (Plan.buffers p) (step_of v)); [exact (the_load_is_at_most p f l r v R J S E)|].
    now apply Plan.peak_is_right. }
  split; [exact L|]. exact (bound_is_right f edges A w B x C (f_nodes f) (taken_at p) (Plan.peak p) (steps_are_an_order f edges P) L).
Qed.

Print Assumptions peak_is_above.

From Coq Require Import Extraction ExtrOcamlBasic.
Extraction "proven.ml" Plan.check check_bound joined.
