(** * A checker of whole plans

    It reads precedence and tensors, and buffers with their places and the tensors that they hold
    one after the other, and decides whether the plan is right. What it accepts is right: see
    [order_is_right], [each_is_held], [each_works], [kept] and [peak_is_right]. It is extracted to OCaml;
    main.ml reads the plain text of onnxmem verify --plain. *)

From Coq Require Import List ZArith Bool Lia MSets.MSetPositive.
Import ListNotations.
Open Scope Z_scope.

(** A tensor has bytes, is made at a step (-1: it is there before the first) and read at steps.
    [over] says that its maker may write it over the tensor before it in the buffer. [works] are
    steps, ascending, with the bytes that each needs besides tensors. *)
Record tensor := { ident : positive; bytes : Z; start : Z; reads : list Z; out : bool; over : bool }.
Record buffer := { offset : Z; size : Z; first : Z; last : Z; held : list tensor }.
Record plan := { steps : Z; arena : Z; peak : Z; edges : list (Z * Z); wanted : list positive; works : list (Z * Z); buffers : list buffer }.

(** The tensor fits into its buffer, and is live within its steps. *)
Definition lives (p : plan) (b : buffer) (t : tensor) :=
  (bytes t <=? size b) && (first b <=? Z.max 0 (start t)) && (Z.max 0 (start t) <=? last b) &&
  forallb (fun r => (start t <? r) && (r <=? last b)) (reads t) &&
  (negb (out t) || (last b =? Z.max 1 (steps p) - 1)).

(** Each tensor of a buffer but the first is written over the one before it by its last reader. *)
Definition gives_way (t u : tensor) :=
  (start t <? start u) && negb (out t) && forallb (fun r => r <=? start u) (reads t).
Fixpoint chain (l : list tensor) :=
  match l with
  | [] => true
  | t :: l => match l with u :: _ => over u | [] => true end && forallb (gives_way t) l && chain l
  end.

(** Two buffers have no byte in common at any step. *)
Definition apart (b c : buffer) :=
  (last b <? first c) || (last c <? first b) || (offset b + size b <=? offset c) || (offset c + size c <=? offset b).
Fixpoint pairwise (l : list buffer) :=
  match l with [] => true | b :: l => forallb (apart b) l && pairwise l end.

Definition inside (p : plan) (b : buffer) :=
  (0 <=? offset b) && (0 <=? size b) && (offset b + size b <=? arena p) && (0 <=? first b) && (last b <? Z.max 1 (steps p)) &&
  forallb (lives p b) (held b) && chain (held b).

(** The load at a step; it can rise only where a buffer begins. *)
Definition live_at (s : Z) (b : buffer) := (first b <=? s) && (s <=? last b).
Definition load (l : list buffer) (s : Z) := fold_right (fun b n => (if live_at s b then size b else 0) + n) 0 l.

Definition ordered (p : plan) := forallb (fun e => (0 <=? fst e) && (fst e <? snd e) && (snd e <? steps p)) (edges p).
Definition peaks (p : plan) :=
  let loads := map (fun b => load (buffers p) (first b)) (buffers p) in
  forallb (fun x => x <=? peak p) loads && existsb (fun x => x =? peak p) (match loads with [] => [0] | _ => loads end).

Definition members (l : list positive) := fold_right PositiveSet.add PositiveSet.empty l.
Definition complete (p : plan) :=
  let s := members (map ident (flat_map held (buffers p))) in
  forallb (fun i => PositiveSet.mem i s) (wanted p).

(** A buffer without tensors is the workspace of a step. No step is listed twice. *)
Definition serves (w : Z * Z) (b : buffer) :=
  match held b with [] => live_at (fst w) b && (snd w <=? size b) | _ => false end.
Fixpoint ascending (l : list (Z * Z)) :=
  match l with v :: (w :: _) as l => (fst v <? fst w) && ascending l | _ => true end.
Definition equipped (p : plan) := ascending (works p) && forallb (fun w => existsb (serves w) (buffers p)) (works p).

Definition check (p : plan) :=
  (ordered p && complete p, forallb (inside p) (buffers p), pairwise (buffers p), peaks p, equipped p).
Definition right (p : plan) := check p = (true, true, true, true, true).

(** ** What it accepts is right *)

Ltac split_and := repeat match goal with
  | H : _ && _ = true |- _ => apply andb_true_iff in H; destruct H
  | H : (_ <=? _) = true |- _ => apply Z.leb_le in H
  | H : (_ <? _) = true |- _ => apply Z.ltb_lt in H
  end.

Lemma right_parts : forall p, right p -> ordered p && complete p = true /\ forallb (inside p) (buffers p) = true /\
  pairwise (buffers p) = true /\ peaks p = true /\ equipped p = true.
Proof. intros p H. unfold right, check in H. injection H. tauto. Qed.

(** The order is one of the graph: what a node needs runs before it. *)
Theorem order_is_right : forall p, right p -> forall w u, In (w, u) (edges p) -> w < u.
Proof.
  intros p H w u I. apply right_parts in H. destruct H as [O _].
  apply andb_true_iff in O. destruct O as [O _]. unfold ordered in O.
  rewrite forallb_forall in O. specialize (O _ I). simpl in O. split_and. assumption.
Qed.

Lemma members_In : forall l i, PositiveSet.mem i (members l) = true -> In i l.
Proof.
  intros l i H. apply PositiveSet.mem_spec in H. induction l as [|x l IH]; simpl in *.
  - now apply PositiveSet.empty_spec in H.
  - apply PositiveSet.add_spec in H. destruct H as [->|H]; auto.
Qed.

(** Each tensor of the graph is in a buffer that is large enough, and inside the arena. *)
Theorem each_is_held : forall p, right p -> forall i, In i (wanted p) ->
  exists b t, In b (buffers p) /\ In t (held b) /\ ident t = i /\ bytes t <= size b /\
    0 <= offset b /\ offset b + size b <= arena p.
Proof.
  intros p H i I. apply right_parts in H. destruct H as [O [N _]]. apply andb_true_iff in O. destruct O as [_ O].
  unfold complete in O. rewrite forallb_forall in O. specialize (O i I). pose proof (members_In _ _ O) as J. apply in_map_iff in J. destruct J as [t [E T]].
  apply in_flat_map in T. destruct T as [b [B T]]. exists b, t.
  rewrite forallb_forall in N. specialize (N b B). unfold inside in N. split_and.
  match goal with F : forallb (lives p b) _ = true |- _ => rewrite forallb_forall in F; specialize (F t T); unfold lives in F end.
  split_and. auto 10.
Qed.

Lemma chain_gives_way : forall l t u a b c, chain l = true -> l = a ++ t :: b ++ u :: c -> gives_way t u = true.
Proof.
  intros l t u a. revert l. induction a as [|x a IH]; intros l b c C E; subst l; simpl in C.
  - split_and. match goal with H : forallb _ _ = true |- _ => rewrite forallb_forall in H; apply H end.
    rewrite in_app_iff. simpl. auto.
  - split_and. eapply IH; eauto.
Qed.

Lemma chain_over : forall l t u a c, chain l = true -> l = a ++ t :: u :: c -> over u = true.
Proof.
  intros l t u a. revert l. induction a as [|x a IH]; intros l c C E; subst l; simpl in C; split_and; [assumption|].
  eapply IH; eauto.
Qed.

Lemma pairwise_apart : forall l b c x y z, pairwise l = true -> l = x ++ b :: y ++ c :: z -> apart b c = true.
Proof.
  intros l b c x. revert l. induction x as [|w x IH]; intros l y z C E; subst l; simpl in C.
  - split_and. match goal with H : forallb _ _ = true |- _ => rewrite forallb_forall in H; apply H end.
    rewrite in_app_iff. simpl. auto.
  - split_and. eapply IH; eauto.
Qed.

Lemma in_two : forall {A} (l : list A) i j x y, (i < j)%nat -> nth_error l i = Some x -> nth_error l j = Some y ->
  exists a b c, l = a ++ x :: b ++ y :: c.
Proof.
  intros A l i j x y L X Y. apply nth_error_split in X. destruct X as [a [m [-> La]]].
  rewrite nth_error_app2 in Y by lia. replace (j - length a)%nat with (S (j - length a - 1)) in Y by lia.
  simpl in Y. apply nth_error_split in Y. destruct Y as [b [c [-> _]]]. now exists a, b, c.
Qed.

Lemma is_inside : forall p i b, right p -> nth_error (buffers p) i = Some b -> inside p b = true.
Proof.
  intros p i b H N. apply right_parts in H. destruct H as [_ [I _]]. rewrite forallb_forall in I.
  apply I. eapply nth_error_In; eauto.
Qed.

Lemma it_lives : forall p b k t, inside p b = true -> nth_error (held b) k = Some t ->
  first b <= Z.max 0 (start t) /\ Z.max 0 (start t) <= last b /\
  (forall r, In r (reads t) -> start t < r /\ r <= last b) /\
  (out t = true -> last b = Z.max 1 (steps p) - 1).
Proof.
  intros p b k t I N. unfold inside in I. split_and.
  match goal with H : forallb (lives p b) _ = true |- _ => rewrite forallb_forall in H; specialize (H t (nth_error_In _ _ N)); unfold lives in H end.
  split_and. repeat split; auto.
  - match goal with H : forallb _ (reads t) = true, I : In r (reads t) |- _ => rewrite forallb_forall in H; specialize (H r I) end. split_and. assumption.
  - match goal with H : forallb _ (reads t) = true, I : In r (reads t) |- _ => rewrite forallb_forall in H; specialize (H r I) end. split_and. assumption.
  - intros O. match goal with H : negb (out t) || _ = true |- _ => rewrite O in H; simpl in H; now apply Z.eqb_eq in H end.
Qed.

(** Two buffers that are live at one step have no byte in common. *)
Lemma disjoint : forall p i j b c s x, right p -> nth_error (buffers p) i = Some b -> nth_error (buffers p) j = Some c -> i <> j ->
  live_at s b = true -> live_at s c = true -> offset b <= x < offset b + size b -> offset c <= x < offset c + size c -> False.
Proof.
  intros p i j b c s x H Hb Hc E Lb Lc Xb Xc. apply right_parts in H. destruct H as [_ [_ [P _]]].
  assert (Q : apart b c = true \/ apart c b = true).
  { destruct (Nat.lt_total i j) as [L|[L|L]]; [|contradiction|].
    - destruct (in_two _ _ _ _ _ L Hb Hc) as [a [d [e Q]]]. left. eapply pairwise_apart; eauto.
    - destruct (in_two _ _ _ _ _ L Hc Hb) as [a [d [e Q]]]. right. eapply pairwise_apart; eauto. }
  unfold live_at in Lb, Lc. split_and. unfold apart in Q. rewrite !orb_true_iff, !Z.ltb_lt, !Z.leb_le in Q. lia.
Qed.

(** Each step has the bytes that it needs besides tensors, in a buffer without tensors, of which no
    other buffer that is live then has a byte; no two entries speak of one step. *)
Theorem each_works : forall p, right p -> ascending (works p) = true /\ forall s n, In (s, n) (works p) ->
  exists i b, nth_error (buffers p) i = Some b /\ held b = [] /\ first b <= s <= last b /\ n <= size b /\
    forall j c x, nth_error (buffers p) j = Some c -> j <> i -> first c <= s <= last c ->
      offset b <= x < offset b + size b -> offset c <= x < offset c + size c -> False.
Proof.
  intros p H. pose proof H as R. apply right_parts in R. destruct R as [_ [_ [_ [_ W]]]].
  unfold equipped in W. apply andb_true_iff in W. destruct W as [A W]. split; [assumption|].
  intros s n I. rewrite forallb_forall in W. specialize (W _ I). apply existsb_exists in W. destruct W as [b [B S]].
  apply In_nth_error in B. destruct B as [i B]. exists i, b.
  unfold serves in S. destruct (held b) eqn:E; [|discriminate]. simpl in S. pose proof S as T. unfold live_at in T. split_and.
  repeat split; auto. intros j c x C J L X Y.
  apply (disjoint p i j b c s x); auto.
  unfold live_at. apply andb_true_iff. split; apply Z.leb_le; lia.
Qed.

(** No byte of a tensor is written over before its last reader has run, and none of an output:
    let two tensors have a byte x in common, the k-th of buffer i, made first, and the m-th of
    buffer j. Then the first is no output, and all its readers have run when the other is made;
    or one makes it, and may write it over the first. *)
Theorem kept : forall p i j b c k m t u x, right p ->
  nth_error (buffers p) i = Some b -> nth_error (buffers p) j = Some c ->
  nth_error (held b) k = Some t -> nth_error (held c) m = Some u -> (i, k) <> (j, m) ->
  offset b <= x < offset b + size b -> offset c <= x < offset c + size c ->
  start t <= start u -> out t = false /\ forall r, In r (reads t) ->
    r < start u \/ (r = start u /\ i = j /\ m = S k /\ over u = true).
Proof.
  intros p i j b c k m t u x H Hb Hc Ht Hu N Xb Xc Le.
  pose proof (is_inside _ _ _ H Hb) as Ib. pose proof (is_inside _ _ _ H Hc) as Ic.
  pose proof (it_lives _ _ _ _ Ib Ht) as [T1 [T2 [T3 T4]]]. pose proof (it_lives _ _ _ _ Ic Hu) as [U1 [U2 [U3 U4]]].
  destruct (Nat.eq_dec i j) as [E|E].
  - subst j. rewrite Hb in Hc. injection Hc as <-. unfold inside in Ib. split_and.
    assert (k <> m) by (intros ->; now apply N).
    destruct (Nat.lt_total k m) as [L|[L|L]]; [|contradiction|].
    + destruct (in_two _ _ _ _ _ L Ht Hu) as [a [d [e Q]]].
      match goal with C : chain _ = true |- _ => pose proof (chain_gives_way _ _ _ _ _ _ C Q) as W end.
      unfold gives_way in W. split_and. split; [now apply negb_true_iff|].
      intros r R. match goal with F : forallb _ (reads t) = true |- _ => rewrite forallb_forall in F; specialize (F r R); apply Z.leb_le in F end.
      match goal with C : chain (held b) = true |- _ => rename C into C0 end.
      destruct (Nat.eq_dec m (S k)) as [M|M].
      * subst m. destruct (Z.eq_dec r (start u)) as [F'|F']; [right|left; lia].
        repeat split; auto.
        destruct (nth_error_split _ _ Ht) as [a' [c' [Q' La]]]. rewrite Q' in Hu.
        rewrite nth_error_app2 in Hu by lia. replace (S k - length a')%nat with 1%nat in Hu by lia.
        destruct c' as [|u' c']; simpl in Hu; [discriminate|]. injection Hu as ->.
        exact (chain_over _ _ _ _ _ C0 Q').
      * left. assert (V : exists v, nth_error (held b) (S k) = Some v).
        { destruct (nth_error (held b) (S k)) eqn:V; [eauto|]. apply nth_error_None in V.
          assert (m < length (held b))%nat by (apply nth_error_Some; congruence). lia. }
        destruct V as [v V].
        destruct (in_two _ _ _ _ _ (Nat.lt_succ_diag_r k) Ht V) as [a1 [d1 [e1 Q1]]].
        assert (L2 : (S k < m)%nat) by lia.
        destruct (in_two _ _ _ _ _ L2 V Hu) as [a2 [d2 [e2 Q2]]].
        pose proof (chain_gives_way _ _ _ _ _ _ C0 Q1) as W1. pose proof (chain_gives_way _ _ _ _ _ _ C0 Q2) as W2.
        unfold gives_way in W1, W2. split_and.
        match goal with G : forallb (fun r => r <=? start v) (reads t) = true |- _ => rewrite forallb_forall in G; specialize (G r R); apply Z.leb_le in G end.
        lia.
    + destruct (in_two _ _ _ _ _ L Hu Ht) as [a [d [e Q]]].
      match goal with C : chain _ = true |- _ => pose proof (chain_gives_way _ _ _ _ _ _ C Q) as W end.
      unfold gives_way in W. split_and. lia.
  - assert (D : last b < first c \/ last c < first b).
    { apply right_parts in H. destruct H as [_ [_ [P _]]].
      assert (Q : apart b c = true \/ apart c b = true).
      { destruct (Nat.lt_total i j) as [L|[L|L]]; [|contradiction|].
        - destruct (in_two _ _ _ _ _ L Hb Hc) as [a [d [e Q]]]. left. eapply pairwise_apart; eauto.
        - destruct (in_two _ _ _ _ _ L Hc Hb) as [a [d [e Q]]]. right. eapply pairwise_apart; eauto. }
      unfold apart in Q. rewrite !orb_true_iff, !Z.ltb_lt, !Z.leb_le in Q. lia. }
    split.
    + destruct (out t) eqn:O; [|reflexivity]. specialize (T4 eq_refl).
      unfold inside in Ic. split_and. lia.
    + intros r R. destruct (T3 r R). lia.
Qed.

Lemma load_rises : forall l s, 0 <= s -> (forall b, In b l -> 0 <= size b) ->
  load l s <= 0 \/ exists b, In b l /\ first b <= s /\ load l s <= load l (first b).
Proof.
  intros l s S Z.
  destruct (filter (live_at s) l) as [|b0 m] eqn:F.
  - left. clear S Z. induction l as [|b l IH]; simpl; [lia|]. simpl in F. destruct (live_at s b); [discriminate|].
    specialize (IH F). lia.
  - right. (* the live buffer that begins last *)
    assert (M : exists b, In b l /\ live_at s b = true /\ forall c, In c l -> live_at s c = true -> first c <= first b).
    { assert (Q : forall m : list buffer, m <> [] -> exists b, In b m /\ forall c, In c m -> first c <= first b).
      { induction m0 as [|x m0 IH]; intros N; [contradiction|]. destruct m0 as [|y m0].
        - exists x. split; [simpl; auto|]. intros c [->|[]]. lia.
        - destruct IH as [b [Hb Hm]]; [discriminate|]. destruct (Z_le_gt_dec (first x) (first b)).
          + exists b. split; [now right|]. intros c [->|Hc]; [assumption|]. now apply Hm.
          + exists x. split; [now left|]. intros c [->|Hc]; [lia|]. specialize (Hm c Hc). lia. }
      destruct (Q (b0 :: m)) as [b [Hb Hm]]; [discriminate|]. rewrite <- F in Hb. apply filter_In in Hb.
      exists b. repeat split; try tauto. intros c Hc Lc. apply Hm. rewrite <- F. apply filter_In. auto. }
    destruct M as [b [Hb [Lb Hm]]]. exists b. unfold live_at in Lb. apply andb_true_iff in Lb. destruct Lb as [L1 L2].
    apply Z.leb_le in L1, L2. repeat split; auto.
    assert (G : forall k, (forall c, In c k -> 0 <= size c) -> (forall c, In c k -> live_at s c = true -> first c <= first b) ->
      load k s <= load k (first b)).
    { induction k as [|c k IH]; intros Zk Mk; simpl; [lia|].
      assert (I : load k s <= load k (first b)).
      { apply IH; intros d Hd; [apply Zk | apply Mk]; now right. }
      assert (C : 0 <= size c) by (apply Zk; now left).
      destruct (live_at s c) eqn:Lc.
      - specialize (Mk c (or_introl eq_refl) Lc). unfold live_at in Lc. apply andb_true_iff in Lc. destruct Lc as [K1 K2].
        apply Z.leb_le in K1, K2. unfold live_at. destruct (first c <=? first b) eqn:X; [|apply Z.leb_gt in X; lia].
        destruct (first b <=? last c) eqn:Y; [simpl; lia|apply Z.leb_gt in Y; lia].
      - destruct (live_at (first b) c); lia. }
    now apply G.
Qed.

(** The peak is the largest load of all steps: none is above it, and one has it. *)
Theorem peak_is_right : forall p, right p -> (forall s, 0 <= s -> load (buffers p) s <= Z.max 0 (peak p)) /\
  (peak p = 0 \/ exists s, load (buffers p) s = peak p).
Proof.
  intros p H. apply right_parts in H. destruct H as [_ [I [_ [P _]]]]. unfold peaks in P.
  apply andb_true_iff in P. destruct P as [P1 P2]. split.
  - intros s S. destruct (load_rises (buffers p) s S) as [L|[b [Hb [_ L]]]].
    + intros b Hb. rewrite forallb_forall in I. specialize (I b Hb). unfold inside in I. split_and. assumption.
    + lia.
    + rewrite forallb_forall in P1.
      specialize (P1 _ (in_map (fun b => load (buffers p) (first b)) _ _ Hb)). apply Z.leb_le in P1. lia.
  - apply existsb_exists in P2. destruct P2 as [x [X E]]. apply Z.eqb_eq in E. subst x.
    destruct (map (fun b => load (buffers p) (first b)) (buffers p)) as [|y ys] eqn:M.
    + destruct X as [<-|[]]. now left.
    + right. rewrite <- M in X. apply in_map_iff in X. destruct X as [b [E _]]. now exists (first b).
Qed.

Print Assumptions each_is_held.
Print Assumptions each_works.
Print Assumptions kept.
Print Assumptions peak_is_right.
Print Assumptions order_is_right.

From Coq Require Import Extraction ExtrOcamlBasic.
Extraction "plan.ml" check.
