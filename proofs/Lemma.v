(** * No order has a peak below the optimum of the constraints *)

From Coq Require Import List ZArith Bool Arith Lia Permutation.
Require Import Model.
Import ListNotations.
Open Scope Z_scope.

Lemma ran_In : forall l v, ran l v = true <-> In v l.
Proof.
  intros l v. unfold ran. rewrite existsb_exists. split.
  - intros [x [H E]]. apply Pos.eqb_eq in E. now subst.
  - intros H. exists v. split; [assumption | apply Pos.eqb_refl].
Qed.

Lemma clause_holds : forall s ls, (exists l, In l ls /\ Bool.eqb (fst l) (s (snd l)) = true) -> holds s (clause ls).
Proof.
  intros s ls [l [H E]]. unfold holds, clause. simpl fst. simpl snd.
  assert (F : In l (filter (fun l => Bool.eqb (fst l) (s (snd l))) ls)) by (apply filter_In; auto).
  destruct (filter _ ls); [contradiction | simpl; lia].
Qed.

Lemma few : forall {A} (f : A -> bool) l, NoDup l ->
  (forall x y, In x l -> In y l -> f x = true -> f y = true -> x = y) ->
  (length l <= length (filter (fun x => negb (f x)) l) + 1)%nat.
Proof.
  intros A f l. induction l as [|x l IH]; intros D U; simpl; [lia|].
  inversion D as [|? ? N D']; subst.
  destruct (f x) eqn:E; simpl.
  - assert (H : filter (fun x => negb (f x)) l = l).
    { clear IH D D'. induction l as [|y l IH]; [reflexivity|]. simpl.
      destruct (f y) eqn:Y.
      - exfalso. apply N. left. apply U; simpl; auto.
      - simpl. rewrite IH; auto.
        + intros a b Ha Hb. apply U; simpl in *; tauto.
        + intros H. apply N. now right. }
    rewrite H. lia.
  - specialize (IH D'). assert (length l <= length (filter (fun x => negb (f x)) l) + 1)%nat; [|lia].
    apply IH. intros a b Ha Hb. apply U; simpl; auto.
Qed.

Lemma count_no : forall (s : var -> bool) a l,
  length (filter (fun k : lit => Bool.eqb (fst k) (s (snd k))) (map (fun q => no (Takes a q)) l)) =
  length (filter (fun q => negb (s (Takes a q))) l).
Proof. intros s a l. induction l as [|q l IH]; simpl; [reflexivity|]. destruct (s (Takes a q)); simpl; lia. Qed.

Lemma sum_ext : forall {A} (f h : A -> Z) l, (forall x, In x l -> f x = h x) -> sum f l = sum h l.
Proof.
  intros A f h l H. induction l as [|x l IH]; simpl; [reflexivity|].
  rewrite H by (simpl; auto). rewrite IH; auto. intros y Hy. apply H. now right.
Qed.

Lemma sum_zero : forall {A} (f : A -> Z) l, (forall x, In x l -> f x = 0) -> sum f l = 0.
Proof.
  intros A f l H. induction l as [|x l IH]; simpl; [reflexivity|].
  rewrite H by (simpl; auto). rewrite IH; auto. intros y Hy. apply H. now right.
Qed.

Lemma sum_one : forall (f : positive -> Z) l v, NoDup l -> In v l -> (forall x, x <> v -> f x = 0) -> sum f l = f v.
Proof.
  intros f l v. induction l as [|x l IH]; intros D I Z; [contradiction|].
  inversion D as [|? ? N D']; subst. simpl. destruct I as [->|I].
  - rewrite sum_zero; [lia|]. intros y Hy. apply Z. intros ->. contradiction.
  - rewrite Z by (intros ->; contradiction). rewrite IH; auto.
Qed.

Lemma sum_perm : forall {A} (f : A -> Z) l m, Permutation l m -> sum f l = sum f m.
Proof. intros A f l m P. induction P; simpl; lia. Qed.

Lemma sum_filter : forall {A} (f : A -> Z) (b : A -> bool) l, sum (fun x => given (b x) (f x)) l = sum f (filter b l).
Proof.
  intros A f b l. induction l as [|x l IH]; simpl; [reflexivity|].
  rewrite IH. destruct (b x); simpl; lia.
Qed.

Lemma NoDup_of_map : forall {A B} (f : A -> B) l, NoDup (map f l) -> NoDup l.
Proof. intros A B f l. apply NoDup_map_inv. Qed.

Lemma map_unique : forall {A B} (f : A -> B) l x y, NoDup (map f l) -> In x l -> In y l -> f x = f y -> x = y.
Proof.
  intros A B f l x y. induction l as [|z l IH]; intros D Hx Hy E; [contradiction|].
  simpl in D. inversion D as [|? ? N D']; subst. destruct Hx as [->|Hx], Hy as [->|Hy]; auto.
  - exfalso. apply N. rewrite E. now apply in_map.
  - exfalso. apply N. rewrite <- E. now apply in_map.
Qed.

(** What is so at the step of v, in an order that has run l before it. *)
Definition eqp (p q : positive * positive) := Pos.eqb (fst p) (fst q) && Pos.eqb (snd p) (snd q).
Definition values g (l : list positive) (v : positive) (taken : list (positive * positive)) (x : var) : bool :=
  match x with
  | Ran u => ran l u
  | Runs a => Pos.eqb a v
  | Alive t => counts g l v t
  | Else e => elsewhere g l v e
  | Takes a p => Pos.eqb a v && existsb (eqp p) taken
  end.

Lemma eqp_eq : forall p q, eqp p q = true <-> p = q.
Proof.
  intros [a b] [c d]. unfold eqp. simpl. rewrite andb_true_iff, !Pos.eqb_eq.
  split; [intros [-> ->]; reflexivity | intros H; inversion H; auto].
Qed.

Lemma taken_In : forall p taken, existsb (eqp p) taken = true <-> In p taken.
Proof.
  intros p taken. rewrite existsb_exists. split.
  - intros [q [H E]]. apply eqp_eq in E. now subst.
  - intros H. exists p. split; [assumption | now apply eqp_eq].
Qed.

Section Lemma.
  Variables (g : graph) (p l r : list positive) (v : positive) (A : list positive) (last : bool) (taken : list (positive * positive)).
  Hypothesis O : is_order g p.
  Hypothesis P : p = l ++ v :: r.
  Hypothesis NA : NoDup A.
  Hypothesis IA : In v A.
  Hypothesis NP : NoDup (pairs g v).
  Hypothesis F : if last then forall a, In a A -> a = v \/ In a l else forall a, In a A -> ~ In a l.
  Hypothesis T : may_take g l v taken.

  Let s := values g l v taken.

  Lemma v_fresh : ~ In v l.
  Proof.
    destruct O as [D _]. rewrite P in D. apply NoDup_remove_2 in D. rewrite in_app_iff in D. tauto.
  Qed.

  Lemma closed : forall u w, In u l -> In w (before g u) -> In w l.
  Proof.
    intros u w Hu Hw. destruct O as [_ [_ B]]. apply in_split in Hu. destruct Hu as [a [b ->]].
    rewrite <- app_assoc in P. simpl in P. specialize (B _ _ _ P w Hw).
    rewrite in_app_iff. now left.
  Qed.

  Lemma ready : incl (before g v) l.
  Proof. destruct O as [_ [_ B]]. exact (B _ _ _ P). Qed.

  Ltac lits := apply clause_holds.
  Ltac this x := exists x; split; [simpl; tauto | simpl].

  Lemma left_mono : forall rs x, In x rs -> ran l x = false -> left_of l rs = true.
  Proof.
    intros rs x H E. unfold left_of. apply existsb_exists. exists x. split; [assumption|]. now rewrite E.
  Qed.

  Lemma all_hold : Forall (holds s) (rows g A last).
  Proof.
    apply Forall_forall. intros x H. unfold rows in H. rewrite !in_app_iff in H.
    repeat match type of H with _ \/ _ => destruct H as [H|H] end.
    - (* order *)
      apply in_flat_map in H. destruct H as [u [_ H]]. apply in_map_iff in H. destruct H as [w [<- Hw]].
      lits. destruct (ran l u) eqn:E.
      + this (yes (Ran w)). apply ran_In in E. now rewrite (proj2 (ran_In l w) (closed u w E Hw)).
      + this (no (Ran u)). now rewrite E.
    - (* one *)
      destruct H as [<-|[]]. lits. exists (yes (Runs v)). split.
      + apply in_map_iff. now exists v.
      + simpl. now rewrite Pos.eqb_refl.
    - (* alone *)
      apply in_flat_map in H. destruct H as [a [_ H]]. apply in_flat_map in H. destruct H as [b [_ H]].
      destruct (Pos.eqb a b) eqn:E; [contradiction|]. destruct H as [<-|[]]. lits.
      destruct (Pos.eqb a v) eqn:Ea.
      + this (no (Runs b)). apply Pos.eqb_eq in Ea. subst a. rewrite Pos.eqb_sym in E. now rewrite E.
      + this (no (Runs a)). now rewrite Ea.
    - (* ready *)
      apply in_flat_map in H. destruct H as [a [_ H]]. apply in_map_iff in H. destruct H as [w [<- Hw]]. lits.
      destruct (Pos.eqb a v) eqn:E.
      + this (yes (Ran w)). apply Pos.eqb_eq in E. subst a. now rewrite (proj2 (ran_In l w) (ready w Hw)).
      + this (no (Runs a)). now rewrite E.
    - (* first, last *)
      destruct last.
      + apply in_flat_map in H. destruct H as [a [Ha [<-|[<-|[]]]]]; lits.
        * destruct (F a Ha) as [->|Hl].
          -- this (yes (Runs v)). now rewrite Pos.eqb_refl.
          -- this (yes (Ran a)). now rewrite (proj2 (ran_In l a) Hl).
        * destruct (Pos.eqb a v) eqn:E.
          -- this (no (Ran a)). apply Pos.eqb_eq in E. subst a. destruct (ran l v) eqn:R; [|reflexivity].
             exfalso. now apply v_fresh, ran_In.
          -- this (no (Runs a)). now rewrite E.
      + apply in_map_iff in H. destruct H as [a [<- Ha]]. lits. this (no (Ran a)).
        destruct (ran l a) eqn:R; [|reflexivity]. exfalso. exact (F a Ha (proj1 (ran_In l a) R)).
    - (* made *)
      apply in_flat_map in H. destruct H as [t [_ H]]. apply in_flat_map in H. destruct H as [a [_ H]].
      destruct (makes g a t) eqn:M; [|contradiction]. destruct H as [<-|[]]. lits.
      destruct (Pos.eqb a v) eqn:E.
      + this (yes (Alive t)). apply Pos.eqb_eq in E. subst a. unfold counts. now rewrite M.
      + this (no (Runs a)). now rewrite E.
    - (* read, output, idle *)
      apply in_flat_map in H. destruct H as [t [_ H]].
      destruct (output g t) eqn:Out.
      + destruct H as [<-|[]]. lits. unfold unmade. destruct (maker g t) as [m|] eqn:M.
        * destruct (ran l m) eqn:R.
          -- this (yes (Alive t)). unfold counts, live. rewrite M, R, Out. simpl. now rewrite orb_true_r.
          -- this (no (Ran m)). now rewrite R.
        * this (yes (Alive t)). unfold counts, live. rewrite M, Out. simpl. now rewrite orb_true_r.
      + assert (Read : forall y, In y (readers g t) -> holds s (clause (yes (Alive t) :: unmade g t ++ [yes (Ran y)]))).
        { intros y Hy. lits. unfold unmade. destruct (ran l y) eqn:R.
          - exists (yes (Ran y)). split; [simpl; rewrite in_app_iff; simpl; tauto | simpl; now rewrite R].
          - assert (L := left_mono _ _ Hy R). destruct (maker g t) as [m|] eqn:M.
            + destruct (ran l m) eqn:Rm.
              * this (yes (Alive t)). unfold counts, live. rewrite M, Rm, Out, L. simpl. now rewrite orb_true_r.
              * this (no (Ran m)). now rewrite Rm.
            + this (yes (Alive t)). unfold counts, live. rewrite M, Out, L. simpl. now rewrite orb_true_r. }
        destruct (maker g t) as [m|] eqn:M; [|destruct (readers g t) as [|y ys] eqn:Rs].
        * apply in_map_iff in H. destruct H as [y [<- Hy]]. now apply Read.
        * destruct H as [<-|[]]. lits. destruct l as [|u us] eqn:El.
          -- this (yes (Alive t)). unfold counts, live. rewrite M, Rs, Out. simpl. now rewrite orb_true_r.
          -- exists (yes (Ran u)). split.
             ++ right. apply in_map_iff. exists u. split; [reflexivity|]. destruct O as [_ [N _]]. apply N.
                rewrite P. simpl. now left.
             ++ simpl. unfold ran. simpl. now rewrite Pos.eqb_refl.
        * apply in_map_iff in H. destruct H as [z [<- Hz]]. now apply Read.
    - (* written *)
      apply in_flat_map in H. destruct H as [e [_ H]]. apply in_flat_map in H. destruct H as [y [Hy H]].
      rewrite in_app_iff in H. destruct (ran l y) eqn:R.
      { assert (Q : exists k, x = clause [yes (Else e); k; yes (Ran y)]).
        { destruct H as [H|H].
          - destruct (_ && _) in H; [|contradiction]. destruct H as [<-|[]]. eauto.
          - destruct (later g e); [|contradiction]. destruct H as [<-|[]]. eauto. }
        destruct Q as [k ->]. lits. this (yes (Ran y)). now rewrite R. }
      assert (L := left_mono _ _ Hy R). destruct H as [H|H].
      + destruct (at_once g e) eqn:Q; [|contradiction]. simpl in H.
        destruct (existsb _ A) in H; [|contradiction]. destruct H as [<-|[]]. lits.
        destruct (Pos.eqb (wmaker g e) v) eqn:E.
        * this (yes (Else e)). unfold elsewhere. now rewrite L, E, Q.
        * this (no (Runs (wmaker g e))). now rewrite E.
      + destruct (later g e) eqn:Q; [|contradiction]. destruct H as [<-|[]]. lits.
        destruct (ran l (wmaker g e)) eqn:E.
        * this (yes (Else e)). unfold elsewhere. rewrite L, E, Q. simpl. now rewrite orb_true_r.
        * this (no (Ran (wmaker g e))). now rewrite E.
    - (* taken *)
      apply in_flat_map in H. destruct H as [a [_ H]]. apply in_map_iff in H. destruct H as [q [<- _]]. lits.
      destruct (Pos.eqb a v) eqn:E.
      + this (yes (Runs a)). now rewrite E.
      + this (no (Takes a q)). now rewrite E.
    - (* free *)
      apply in_flat_map in H. destruct H as [a [_ H]]. apply in_flat_map in H. destruct H as [q [_ H]].
      apply in_flat_map in H. destruct H as [y [Hy H]]. destruct (Pos.eqb y a) eqn:E; [contradiction|].
      destruct H as [<-|[]]. lits. destruct (Pos.eqb a v && existsb (eqp q) taken) eqn:K.
      + this (yes (Ran y)). apply andb_true_iff in K. destruct K as [K1 K2].
        apply Pos.eqb_eq in K1. subst a. apply taken_In in K2. destruct T as [_ [_ [_ T4]]].
        destruct (T4 q y K2 Hy) as [->|Hl]; [now rewrite Pos.eqb_refl in E|].
        now rewrite (proj2 (ran_In l y) Hl).
      + this (no (Takes a q)). now rewrite K.
    - (* once *)
      apply in_flat_map in H. destruct H as [a [_ H]]. apply in_flat_map in H. destruct H as [t [_ H]].
      assert (Once : forall f : positive * positive -> positive, NoDup (map f taken) ->
        holds s (at_most_one a (filter (fun q => Pos.eqb (f q) t) (pairs g a)))).
      { intros f D. unfold holds, at_most_one. simpl fst. simpl snd.
        set (qs := filter (fun q => Pos.eqb (f q) t) (pairs g a)).
        change (length qs - 1 <= length (filter (fun k : lit => Bool.eqb (fst k) (s (snd k))) (map (fun q => no (Takes a q)) qs)))%nat.
        rewrite (count_no s a qs). destruct (Pos.eqb a v) eqn:E.
        - apply Pos.eqb_eq in E. subst a.
          assert (length qs <= length (filter (fun q => negb (s (Takes v q))) qs) + 1)%nat; [|lia].
          apply few.
          + now apply NoDup_filter.
          + intros q q' Hq Hq' Sq Sq'. unfold qs in Hq, Hq'. apply filter_In in Hq, Hq'.
            simpl in Sq, Sq'. rewrite Pos.eqb_refl in Sq, Sq'. apply taken_In in Sq, Sq'.
            apply (map_unique f taken); auto. destruct Hq as [_ Hq], Hq' as [_ Hq'].
            apply Pos.eqb_eq in Hq, Hq'. congruence.
        - assert (X : filter (fun q => negb (s (Takes a q))) qs = qs).
          { clear D. induction qs as [|q qs' IH]; [reflexivity|]. cbn [filter].
            assert (Z : s (Takes a q) = false) by (simpl; now rewrite E). rewrite Z. cbn [negb]. now rewrite IH. }
          rewrite X. lia. }
      destruct T as [_ [T2 [T3 _]]]. destruct H as [<-|[<-|[]]]; now apply Once.
  Qed.

  Lemma the_load : objective g A s = load g l v taken.
  Proof.
    unfold objective, load. simpl.
    rewrite (sum_one (fun a => given (Pos.eqb a v) (work g a)) A v NA IA).
    2: { intros x N. apply Pos.eqb_neq in N. now rewrite N. }
    rewrite (sum_one (fun a => sum (fun q => given (Pos.eqb a v && existsb (eqp q) taken) (bytes g (snd q))) (pairs g a)) A v NA IA).
    2: { intros x N. apply sum_zero. intros q _. apply Pos.eqb_neq in N. now rewrite N. }
    rewrite Pos.eqb_refl. simpl.
    rewrite (sum_filter (fun q => bytes g (snd q)) (fun q => existsb (eqp q) taken) (pairs g v)).
    rewrite (sum_perm (fun q => bytes g (snd q)) (filter (fun q => existsb (eqp q) taken) (pairs g v)) taken); [reflexivity|].
    destruct T as [T1 [T2 _]]. apply NoDup_Permutation.
    - now apply NoDup_filter.
    - exact (NoDup_of_map fst taken T2).
    - intros q. rewrite filter_In, taken_In. split; [tauto | intros H; split; auto].
  Qed.
End Lemma.

(** Every order has a node of A that runs first, and one that runs last. *)
Lemma somewhere : forall (A p : list positive) (last : bool), (exists a, In a A /\ In a p) ->
  (forall a, In a A -> In a p) -> exists l v r, p = l ++ v :: r /\ In v A /\
  if last then forall a, In a A -> a = v \/ In a l else forall a, In a A -> ~ In a l.
Proof.
  intros A p last E I. destruct last.
  - revert E I. induction p as [|x p IH] using rev_ind; intros [a [Ha Hp]] I; [contradiction|].
    destruct (in_dec Pos.eq_dec x A) as [Hx|Hx].
    + exists p, x, []. repeat split; auto. intros b Hb. specialize (I b Hb). rewrite in_app_iff in I.
      destruct I as [I|[I|[]]]; auto.
    + destruct IH as [l [v [r [-> [Hv F]]]]].
      * exists a. split; auto. rewrite in_app_iff in Hp. destruct Hp as [Hp|[->|[]]]; [assumption|contradiction].
      * intros b Hb. specialize (I b Hb). rewrite in_app_iff in I. destruct I as [I|[->|[]]]; [assumption|contradiction].
      * exists l, v, (r ++ [x]). rewrite <- app_assoc. repeat split; auto.
  - clear I. revert E. induction p as [|x p IH]; intros [a [Ha Hp]]; [contradiction|].
    destruct (in_dec Pos.eq_dec x A) as [Hx|Hx].
    + exists [], x, p. repeat split; auto.
    + destruct IH as [l [v [r [-> [Hv F]]]]].
      * exists a. split; auto. destruct Hp as [->|Hp]; [contradiction|assumption].
      * exists (x :: l), v, r. repeat split; auto. intros b Hb [->|H]; [contradiction|]. exact (F b Hb H).
Qed.

(** Let B be a lower bound on the objective over all values that keep the constraints. Then no
    order of the graph, whatever pairs its nodes take, has all its loads below B. *)
Theorem no_order_is_below : forall g A last B,
  NoDup A -> A <> [] -> incl A (nodes g) -> (forall v, NoDup (pairs g v)) ->
  (forall s, Forall (holds s) (rows g A last) -> B <= objective g A s) ->
  forall p taken peak, is_order g p ->
  (forall l v r, p = l ++ v :: r -> may_take g l v (taken v) /\ load g l v (taken v) <= peak) ->
  B <= peak.
Proof.
  intros g A last B NA EA IA NP Bound p taken peak O Peak.
  assert (IP : forall a, In a A -> In a p) by (intros a Ha; apply O; auto).
  destruct (somewhere A p last) as [l [v [r [P [Hv F]]]]]; auto.
  { destruct A as [|a A]; [contradiction|]. exists a. split; simpl; auto. apply IP. now left. }
  destruct (Peak l v r P) as [T L].
  apply Z.le_trans with (load g l v (taken v)); [|assumption].
  rewrite <- (the_load g l v A (taken v) NA Hv (NP v) T).
  apply Bound. now apply (all_hold g p l r v A last (taken v)).
Qed.

Print Assumptions no_order_is_below.
