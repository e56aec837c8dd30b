(** * A checker of whole plans

    It reads precedence and tensors, and buffers with their places and the tensors that they hold
    one after the other, and decides whether the plan is right. What it accepts is right: see
    [order_is_right], [each_is_held], [each_works], [kept] and [peak_is_right]. Its time is n log n.
    Join.v has it extracted to OCaml; plans.ml hands it the plain text of onnxmem verify --plain. *)

From Coq Require Import List ZArith Bool Lia MSets.MSetPositive FSets.FMapPositive.
Import ListNotations.
Open Scope Z_scope.

(** A tensor takes space, is made at a step (-1: it is there before the first) and read at steps.
    [over] says that its maker may write it over the tensor before it in the buffer. [works] are
    steps, ascending, with the bytes that each needs besides tensors. *)
Record tensor := { ident : positive; space : Z; start : Z; reads : list Z; out : bool; over : bool }.
Record buffer := { offset : Z; size : Z; first : Z; last : Z; held : list tensor }.

(** Buffers are placed in the order in which they begin; before, those are freed that have ended.
    [below] is the offset of the buffer below (-1: none is), which plans.ml looks up, and which is
    not believed. *)
Inductive move := Place (below : Z) (b : buffer) | Free (below : Z) (o : Z).
Definition placed (l : list move) := flat_map (fun m => match m with Place _ b => [b] | Free _ _ => [] end) l.

(** At [peak_step] the load is the peak. *)
Record plan := { steps : Z; arena : Z; peak : Z; peak_step : Z; edges : list (Z * Z); wanted : list positive; works : list (Z * Z); moves : list move }.
Definition buffers p := placed (moves p).

(** The tensor fits into its buffer, and is live within its steps. *)
Definition lives (p : plan) (b : buffer) (t : tensor) :=
  (space t <=? size b) && (first b <=? Z.max 0 (start t)) && (Z.max 0 (start t) <=? last b) &&
  forallb (fun r => (start t <? r) && (r <=? last b)) (reads t) &&
  (negb (out t) || (last b =? Z.max 1 (steps p) - 1)).

(** Each tensor of a buffer but the first is written over the one before it by its last reader. *)
Definition gives_way (t u : tensor) :=
  (start t <? start u) && negb (out t) && forallb (fun r => r <=? start u) (reads t).
Fixpoint chain (l : list tensor) :=
  match l with t :: (u :: _) as l => over u && gives_way t u && chain l | _ => true end.

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

(** What is live lies in cells by offset, each with the offset of the next: a new buffer must fit
    between two. [freed] is a step before which no buffer may begin any more. *)
Record cell := { who : buffer; next : Z }.
Record state := { freed : Z; filled : Z; most : Z; cells : PositiveMap.t cell }.
Definition key (o : Z) := Z.to_pos (o + 2).
Definition stop b := offset b + size b.
Definition put (st : state) o c := PositiveMap.add (key o) c (cells st).
Definition step (st : state) (m : move) : option state :=
  match m with
  | Place o b =>
    match PositiveMap.find (key o) (cells st) with
    | None => None
    | Some c =>
      if (freed st <=? first b) && (0 <=? offset b) && (0 <? size b) && (stop (who c) <=? offset b) && (stop b <=? next c) then
        let n := filled st + size b in
        Some {| freed := first b; filled := n; most := Z.max (most st) n;
                cells := PositiveMap.add (key (offset b)) {| who := b; next := next c |} (put st o {| who := who c; next := offset b |}) |}
      else None
    end
  | Free o u =>
    match PositiveMap.find (key o) (cells st), PositiveMap.find (key u) (cells st) with
    | Some c, Some d =>
      if (0 <=? u) && (next c =? u) then
        Some {| freed := Z.max (freed st) (last (who d) + 1); filled := filled st - size (who d); most := most st;
                cells := PositiveMap.remove (key u) (put st o {| who := who c; next := next d |}) |}
      else None
    | _, _ => None
    end
  end.
Fixpoint sweep (st : state) (l : list move) : option state :=
  match l with [] => Some st | m :: l => match step st m with Some st => sweep st l | None => None end end.
Definition ground := {| offset := -1; size := 1; first := 0; last := 0; held := [] |}.
Definition start_of (p : plan) :=
  {| freed := 0; filled := 0; most := 0; cells := PositiveMap.add (key (-1)) {| who := ground; next := arena p |} (PositiveMap.empty cell) |}.

Definition ordered (p : plan) := forallb (fun e => (0 <=? fst e) && (fst e <? snd e) && (snd e <? steps p)) (edges p).
Definition peaks (p : plan) (n : Z) := (n <=? peak p) && ((peak p =? 0) || (load (buffers p) (peak_step p) =? peak p)).

Definition members (l : list positive) := fold_right PositiveSet.add PositiveSet.empty l.
Definition complete (p : plan) :=
  let s := members (map ident (flat_map held (buffers p))) in
  forallb (fun i => PositiveSet.mem i s) (wanted p).

(** A buffer without tensors is the workspace of a step. No step is listed twice. *)
Definition serves (w : Z * Z) (b : buffer) :=
  match held b with [] => live_at (fst w) b && (snd w <=? size b) | _ => false end.
Fixpoint ascending (l : list (Z * Z)) :=
  match l with v :: (w :: _) as l => (fst v <? fst w) && ascending l | _ => true end.
Definition at_step (m : PositiveMap.t (list buffer)) (n : Z) := match PositiveMap.find (key n) m with Some l => l | None => [] end.
Definition workspaces (l : list buffer) :=
  fold_right (fun b m => match held b with [] => PositiveMap.add (key (first b)) (b :: at_step m (first b)) m | _ => m end) (PositiveMap.empty (list buffer)) l.
Definition equipped (p : plan) :=
  let m := workspaces (buffers p) in
  ascending (works p) && forallb (fun w => existsb (serves w) (at_step m (fst w))) (works p).

Definition check (p : plan) :=
  let s := if 0 <=? arena p then sweep (start_of p) (moves p) else None in
  (ordered p && complete p, forallb (inside p) (buffers p), match s with Some _ => true | None => false end,
   match s with Some st => peaks p (most st) | None => true end, equipped p).
Definition right (p : plan) := check p = (true, true, true, true, true).

(** ** What it accepts is right *)

Ltac split_and := repeat match goal with
  | H : _ && _ = true |- _ => apply andb_true_iff in H; destruct H
  | H : (_ <=? _) = true |- _ => apply Z.leb_le in H
  | H : (_ <? _) = true |- _ => apply Z.ltb_lt in H
  end.

(** What holds of a state in which the buffers of l are live. *)
Definition total (l : list buffer) := fold_right (fun b n => size b + n) 0 l.
Record sound (st : state) (l : list buffer) : Prop := {
  cell_is : forall k c, PositiveMap.find k (cells st) = Some c ->
    k = key (offset (who c)) /\ -1 <= offset (who c) /\ 0 < size (who c) /\ stop (who c) <= next c /\ (who c = ground \/ In (who c) l);
  cells_apart : forall k j c d, PositiveMap.find k (cells st) = Some c -> PositiveMap.find j (cells st) = Some d -> k <> j ->
    stop (who d) <= offset (who c) \/ next c <= offset (who d);
  in_cell : forall b, In b l -> 0 <= offset b /\ exists n, PositiveMap.find (key (offset b)) (cells st) = Some {| who := b; next := n |};
  no_two : NoDup (map offset l);
  filled_is : filled st = total l }.

Lemma key_inj : forall a b, -1 <= a -> -1 <= b -> key a = key b -> a = b.
Proof. intros a b A B E. unfold key in E. apply Z2Pos.inj in E; lia. Qed.

Ltac look H k :=
  match type of H with PositiveMap.find ?j _ = Some _ =>
    destruct (Pos.eq_dec j k); [subst j; rewrite PositiveMap.gss in H; injection H as <- | rewrite PositiveMap.gso in H by assumption] end.

Ltac geo := unfold stop in *; simpl in *; lia.

Lemma placed_sound : forall st l o b st', sound st l -> step st (Place o b) = Some st' ->
  sound st' (b :: l) /\ (forall c, In c l -> stop c <= offset b \/ stop b <= offset c) /\
  freed st <= first b /\ freed st' = first b /\ 0 < size b /\ most st' = Z.max (most st) (filled st').
Proof.
  intros st l o b st' S E. simpl in E. destruct (PositiveMap.find (key o) (cells st)) as [c|] eqn:C; [|discriminate].
  destruct (_ && _) eqn:T in E; [|discriminate]. injection E as <-. split_and.
  destruct S as [CI CA IC NT FI]. destruct (CI _ _ C) as [KC [OC [SC [NC WC]]]].
  assert (NE : key (offset b) <> key o).
  { rewrite KC. intros E. apply key_inj in E; geo. }
  assert (FB : forall k d, PositiveMap.find k (cells st) = Some d -> k <> key (offset b)).
  { intros k d F E. destruct (Pos.eq_dec k (key o)) as [->|N]; [congruence|].
    destruct (CI _ _ F) as [K [O [P _]]]. rewrite K in E. apply key_inj in E; [|lia|lia].
    destruct (CA _ _ _ _ C F ltac:(congruence)); geo. }
  assert (Old : forall k d, PositiveMap.find k (cells st) = Some d -> k <> key o -> stop (who d) <= offset (who c) \/ stop b <= offset (who d)).
  { intros k d F N. destruct (CA _ _ _ _ C F ltac:(congruence)); geo. }
  simpl. split; [|split; [|repeat split; lia]].
  - constructor; simpl.
    + intros k d F. unfold put in F. look F (key (offset b)); [simpl; repeat split; auto; geo|].
      look F (key o).
      * simpl. repeat split; auto; try lia. destruct WC; auto.
      * destruct (CI _ _ F) as [K [O [P [Q W]]]]. repeat split; auto. destruct W; auto.
    + intros k j d e F G N. unfold put in F, G. look F (key (offset b)).
      * look G (key (offset b)); [contradiction|]. look G (key o); [left; geo|].
        destruct (Old _ _ G ltac:(assumption)); [left; geo|].
        destruct (CA _ _ _ _ C G ltac:(congruence)); [left; geo | right; geo].
      * look F (key o).
        -- look G (key (offset b)); [right; geo|]. look G (key o); [contradiction|].
           destruct (Old _ _ G ltac:(assumption)); [left; geo | right; geo].
        -- look G (key (offset b)).
           ++ destruct (CI _ _ F) as [K [O [P [Q W]]]].
              destruct (CA _ _ _ _ C F ltac:(congruence)); [|left; geo].
              destruct (CA _ _ _ _ F C ltac:(congruence)); [geo | right; geo].
           ++ look G (key o); [apply (CA _ _ _ _ F C); congruence | eauto].
    + intros x [<-|X].
      * split; [assumption|]. exists (next c). now rewrite PositiveMap.gss.
      * destruct (IC x X) as [O [n F]]. split; [assumption|]. pose proof (FB _ _ F) as N1. unfold put.
        rewrite PositiveMap.gso by assumption. destruct (Pos.eq_dec (key (offset x)) (key o)) as [E|N2].
        -- rewrite E in *. rewrite PositiveMap.gss. rewrite C in F. injection F as ->. eauto.
        -- rewrite PositiveMap.gso by assumption. eauto.
    + constructor; [|assumption]. intros I. apply in_map_iff in I. destruct I as [x [E X]]. destruct (IC x X) as [O [n F]].
      apply (FB _ _ F). now rewrite E.
    + lia.
  - intros x X. destruct (IC x X) as [O [n F]]. destruct (Pos.eq_dec (key (offset x)) (key o)) as [E|N].
    + rewrite E in F. rewrite C in F. injection F as ->. simpl in *. left. lia.
    + destruct (Old _ _ F N) as [Q|Q]; simpl in Q; [left; geo | right; geo].
Qed.

Lemma total_app : forall l m, total (l ++ m) = total l + total m.
Proof. intros l m. induction l as [|b l IH]; simpl; lia. Qed.
Lemma load_app : forall l m s, load (l ++ m) s = load l s + load m s.
Proof. intros l m s. induction l as [|b l IH]; simpl; lia. Qed.

Lemma freed_sound : forall st l o u st', sound st l -> step st (Free o u) = Some st' ->
  exists l1 b l2, l = l1 ++ b :: l2 /\ sound st' (l1 ++ l2) /\ freed st <= freed st' /\ last b < freed st' /\ most st' = most st /\ 0 < size b.
Proof.
  intros st l o u st' S E. simpl in E. destruct (PositiveMap.find (key o) (cells st)) as [c|] eqn:C; [|discriminate].
  destruct (PositiveMap.find (key u) (cells st)) as [d|] eqn:D; [|discriminate].
  destruct (_ && _) eqn:T in E; [|discriminate]. injection E as <-. split_and. match goal with H : (_ =? _) = true |- _ => apply Z.eqb_eq in H; rename H into NX end.
  destruct S as [CI CA IC NT FI]. destruct (CI _ _ C) as [KC [OC [SC [NC WC]]]]. destruct (CI _ _ D) as [KD [OD [SD [ND WD]]]].
  assert (U : u = offset (who d)) by (apply key_inj; auto; lia).
  destruct WD as [WD|WD]; [rewrite WD in U; simpl in U; lia|].
  assert (OU : key o <> key u).
  { intros E. rewrite E in C. rewrite C in D. injection D as <-. unfold stop in *. lia. }
  apply in_split in WD. destruct WD as [l1 [l2 ->]]. exists l1, (who d), l2.
  rewrite map_app in NT. simpl in NT.
  split; [reflexivity|]. split; [|simpl; repeat split; auto; lia].
  constructor; simpl.
  - intros k e F. destruct (Pos.eq_dec k (key u)) as [->|N]; [now rewrite PositiveMap.grs in F|]. rewrite PositiveMap.gro in F by assumption.
    unfold put in F. look F (key o).
    + simpl. repeat split; auto; [unfold stop in *; lia|]. destruct WC as [WC|WC]; [now left|right].
      rewrite in_app_iff in *. simpl in WC. destruct WC as [WC|[WC|WC]]; auto. exfalso. apply OU. rewrite KC, KD. congruence.
    + destruct (CI _ _ F) as [K [O [P [Q W]]]]. repeat split; auto. destruct W as [W|W]; [now left|right].
      rewrite in_app_iff in *. simpl in W. destruct W as [W|[W|W]]; auto. exfalso. apply N. rewrite K, KD. congruence.
  - intros k j e f F G N.
    destruct (Pos.eq_dec k (key u)) as [->|Nk]; [now rewrite PositiveMap.grs in F|]. rewrite PositiveMap.gro in F by assumption.
    destruct (Pos.eq_dec j (key u)) as [->|Nj]; [now rewrite PositiveMap.grs in G|]. rewrite PositiveMap.gro in G by assumption.
    unfold put in F, G. look F (key o).
    + look G (key o); [contradiction|]. simpl. destruct (CA _ _ _ _ C G ltac:(congruence)) as [Q|Q]; [now left|].
      destruct (CA _ _ _ _ D G ltac:(congruence)) as [R|R]; [|now right]. destruct (CI _ _ G) as [K [O [P [Q' W]]]]. unfold stop in *. lia.
    + look G (key o); simpl; [apply (CA _ _ _ _ F C); congruence | eauto].
  - intros x X. destruct (IC x) as [O [n F]]; [rewrite in_app_iff in *; simpl; tauto|]. split; [assumption|].
    assert (N : key (offset x) <> key u).
    { intros E. apply key_inj in E; [|lia|lia]. apply NoDup_remove_2 in NT. apply NT. rewrite <- U, <- E, <- map_app. now apply in_map. }
    rewrite PositiveMap.gro by assumption. unfold put. destruct (Pos.eq_dec (key (offset x)) (key o)) as [E|N'].
    + rewrite E in *. rewrite PositiveMap.gss. rewrite C in F. injection F as ->. eauto.
    + rewrite PositiveMap.gso by assumption. eauto.
  - rewrite map_app. now apply NoDup_remove_1 in NT.
  - rewrite total_app in *. simpl in FI. lia.
Qed.

Lemma load_below : forall l s, (forall b, In b l -> 0 < size b) -> 0 <= load l s <= total l.
Proof.
  intros l s P. induction l as [|b l IH]; simpl; [lia|]. pose proof (P b (or_introl eq_refl)).
  assert (forall c, In c l -> 0 < size c) by (intros c C; apply P; now right). specialize (IH H0). destruct (live_at s b); lia.
Qed.

Lemma load_none : forall l s, (forall b, In b l -> s < first b) -> load l s = 0.
Proof.
  intros l s F. induction l as [|b l IH]; simpl; [reflexivity|]. rewrite IH by (intros c C; apply F; now right).
  specialize (F b (or_introl eq_refl)). unfold live_at. destruct (first b <=? s) eqn:E; [apply Z.leb_le in E; lia | reflexivity].
Qed.

Lemma sound_sizes : forall st l b, sound st l -> In b l -> 0 < size b.
Proof. intros st l b S B. destruct (in_cell _ _ S b B) as [_ [n F]]. now apply (cell_is _ _ S) in F. Qed.

(** What a sweep shows of the buffers that it places, beside those of l, which are live. *)
Lemma swept : forall ms st l st', sound st l -> sweep st ms = Some st' ->
  pairwise (placed ms) = true /\
  (forall b c, In b l -> In c (placed ms) -> apart b c = true) /\
  (forall c, In c (placed ms) -> freed st <= first c /\ 0 < size c) /\
  most st <= most st' /\
  (forall s, load (placed ms) s + load l s <= Z.max (filled st) (most st')).
Proof.
  induction ms as [|m ms IH]; intros st l st' S E.
  - injection E as <-. simpl. repeat split; try contradiction; try lia.
    intros s. pose proof (load_below l s (fun b B => sound_sizes _ _ _ S B)). rewrite (filled_is _ _ S). lia.
  - cbn [sweep] in E. destruct (step st m) as [st1|] eqn:T; [|discriminate]. destruct m as [o b|o u].
    + destruct (placed_sound _ _ _ _ _ S T) as [S1 [A [F [F1 [P M]]]]].
      destruct (IH _ _ _ S1 E) as [PW [AP [FI [MO LO]]]].
      change (placed (Place o b :: ms)) with (b :: placed ms). repeat split.
      * cbn [pairwise]. rewrite PW, andb_true_r. apply forallb_forall. intros c C. apply AP; simpl; auto.
      * intros x c X [<-|C]; [|apply AP; simpl; auto]. unfold apart. specialize (A x X). unfold stop in A.
        rewrite !orb_true_iff, !Z.leb_le. lia.
      * destruct H as [<-|C]; [assumption|]. specialize (FI c C). lia.
      * destruct H as [<-|C]; [assumption|]. now apply FI.
      * lia.
      * intros s. specialize (LO s). cbn [load fold_right] in *. fold (load l s) (load (placed ms) s) in *. lia.
    + destruct (freed_sound _ _ _ _ _ S T) as [l1 [b [l2 [-> [S1 [F [L [M P]]]]]]]].
      destruct (IH _ _ _ S1 E) as [PW [AP [FI [MO LO]]]].
      change (placed (Free o u :: ms)) with (placed ms). repeat split; auto.
      * intros x c X C. apply in_app_iff in X. simpl in X. destruct X as [X|[<-|X]].
        -- apply AP; [apply in_app_iff; now left | assumption].
        -- destruct (FI c C) as [FC _]. assert (Q : last b <? first c = true) by (apply Z.ltb_lt; lia). unfold apart. now rewrite Q.
        -- apply AP; [apply in_app_iff; now right | assumption].
      * destruct (FI c H). lia.
      * now apply FI.
      * lia.
      * intros s. specialize (LO s). rewrite load_app in *. cbn [load fold_right]. fold (load l2 s).
        pose proof (filled_is _ _ S1) as Q1. pose proof (filled_is _ _ S) as Q. rewrite total_app in *. cbn [total fold_right] in Q. fold (total l2) in Q.
        destruct (live_at s b) eqn:V; [|lia].
        assert (Z0 : load (placed ms) s = 0).
        { apply load_none. intros c C. destruct (FI c C). unfold live_at in V. split_and. lia. }
        assert (B1 : 0 <= load (l1 ++ l2) s <= total (l1 ++ l2)) by (apply load_below; intros x X; apply (sound_sizes _ _ _ S1 X)).
        rewrite load_app, total_app in B1. lia.
Qed.

Lemma start_sound : forall p, 0 <= arena p -> sound (start_of p) [].
Proof.
  intros p A. constructor; try contradiction; try reflexivity; unfold start_of; cbn [cells].
  - intros k c F. look F (key (-1)); [|now rewrite PositiveMap.gempty in F]. simpl. unfold stop. simpl. repeat split; auto; lia.
  - intros k j c d F G N. look F (key (-1)); [|now rewrite PositiveMap.gempty in F].
    look G (key (-1)); [contradiction | now rewrite PositiveMap.gempty in G].
  - constructor.
Qed.

Lemma right_parts : forall p, right p -> ordered p && complete p = true /\ forallb (inside p) (buffers p) = true /\
  pairwise (buffers p) = true /\ ((forall s, load (buffers p) s <= peak p) /\ (peak p = 0 \/ load (buffers p) (peak_step p) = peak p)) /\ equipped p = true.
Proof.
  intros p H. unfold right, check in H. destruct (0 <=? arena p) eqn:A; [apply Z.leb_le in A | discriminate].
  destruct (sweep (start_of p) (moves p)) as [st|] eqn:S; [|discriminate].
  injection H as O I P W. unfold peaks in P. apply andb_true_iff in P. destruct P as [P1 P2]. apply Z.leb_le in P1.
  rewrite orb_true_iff, !Z.eqb_eq in P2.
  destruct (swept (moves p) (start_of p) [] st (start_sound p A) S) as [PW [_ [_ [M L]]]].
  repeat split; auto. intros s. specialize (L s). unfold buffers. simpl in *. lia.
Qed.

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
  exists b t, In b (buffers p) /\ In t (held b) /\ ident t = i /\ space t <= size b /\
    0 <= offset b /\ offset b + size b <= arena p.
Proof.
  intros p H i I. apply right_parts in H. destruct H as [O [N _]]. apply andb_true_iff in O. destruct O as [_ O].
  unfold complete in O. rewrite forallb_forall in O. specialize (O i I). pose proof (members_In _ _ O) as J. apply in_map_iff in J. destruct J as [t [E T]].
  apply in_flat_map in T. destruct T as [b [B T]]. exists b, t.
  rewrite forallb_forall in N. specialize (N b B). unfold inside in N. split_and.
  match goal with F : forallb (lives p b) _ = true |- _ => rewrite forallb_forall in F; specialize (F t T); unfold lives in F end.
  split_and. auto 10.
Qed.

Lemma chain_all : forall l t u, chain (t :: l) = true -> In u l -> gives_way t u = true.
Proof.
  induction l as [|v l IH]; intros t u C I; [contradiction|]. cbn [chain] in C. split_and. destruct I as [<-|I]; [assumption|].
  assert (V : gives_way v u = true) by (apply IH; auto).
  unfold gives_way in *. split_and. repeat (apply andb_true_iff; split); try assumption; [apply Z.ltb_lt; lia|].
  match goal with F : forallb (fun r => r <=? start v) (reads t) = true |- _ => rewrite forallb_forall in *; intros r R; specialize (F r R); apply Z.leb_le in F end.
  apply Z.leb_le. lia.
Qed.

Lemma chain_gives_way : forall l t u a b c, chain l = true -> l = a ++ t :: b ++ u :: c -> gives_way t u = true.
Proof.
  intros l t u a. revert l. induction a as [|x a IH]; intros l b c C E; subst l.
  - apply (chain_all (b ++ u :: c)); [assumption|]. rewrite in_app_iff. simpl. auto.
  - apply (IH (a ++ t :: b ++ u :: c) b c); [|reflexivity]. simpl in C. destruct (a ++ t :: b ++ u :: c); [reflexivity|]. now split_and.
Qed.

Lemma chain_over : forall l t u a c, chain l = true -> l = a ++ t :: u :: c -> over u = true.
Proof.
  intros l t u a. revert l. induction a as [|x a IH]; intros l c C E; subst l.
  - cbn [app chain] in C. now split_and.
  - apply (IH (a ++ t :: u :: c) c); [|reflexivity]. simpl in C. destruct (a ++ t :: u :: c); [reflexivity|]. now split_and.
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

Lemma workspaces_In : forall l n b, In b (at_step (workspaces l) n) -> In b l.
Proof.
  intros l n b. induction l as [|c l IH]; unfold at_step in *; cbn [workspaces fold_right].
  - now rewrite PositiveMap.gempty.
  - fold (workspaces l). destruct (held c); [|simpl; auto]. destruct (Pos.eq_dec (key n) (key (first c))) as [E|N].
    + rewrite E in *. rewrite PositiveMap.gss. simpl. fold (at_step (workspaces l) (first c)) in *. tauto.
    + rewrite PositiveMap.gso by assumption. simpl. tauto.
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
  apply workspaces_In in B.
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

(** The peak is the largest load of all steps: none is above it, and one has it. *)
Theorem peak_is_right : forall p, right p -> (forall s, load (buffers p) s <= peak p) /\
  (peak p = 0 \/ exists s, load (buffers p) s = peak p).
Proof.
  intros p H. apply right_parts in H. destruct H as [_ [_ [_ [[P Q] _]]]]. split; [assumption|].
  destruct Q as [Q|Q]; [now left | right; now exists (peak_step p)].
Qed.

Print Assumptions each_is_held.
Print Assumptions each_works.
Print Assumptions kept.
Print Assumptions peak_is_right.
Print Assumptions order_is_right.
