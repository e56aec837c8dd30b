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
Definition in_zone w l j := match w with Leaving z => within z l j | _ => false end.
Definition values g w (l : list positive) (v : positive) (taken : list (positive * positive)) (x : var) : bool :=
  match x with
  | Ran u => ran l u
  | Runs a => Pos.eqb a v
  | Alive t => counts g l v t
  | Else e => elsewhere g l v e
  | Takes a p => Pos.eqb a v && existsb (eqp p) taken
  | Zoned j => in_zone w l j
  | Behind u => ran (l ++ [v]) u
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
  Variables (g : graph) (p l r : list positive) (v : positive) (A : list positive) (w : which) (taken : list (positive * positive)).
  Hypothesis O : is_order g p.
  Hypothesis P : p = l ++ v :: r.
  Hypothesis NA : NoDup A.
  Hypothesis IA : In v A.
  Hypothesis NP : NoDup (pairs g v).
  Hypothesis F : chosen w A l v.
  Hypothesis T : may_take g l v taken.

  Let s := values g w l v taken.

  Lemma v_fresh : ~ In v l.
  Proof.
    destruct O as [D _]. rewrite P in D. apply NoDup_remove_2 in D. rewrite in_app_iff in D. tauto.
  Qed.

  Lemma closed : forall u y, In u l -> In y (before g u) -> In y l.
  Proof.
    intros u y Hu Hy. destruct O as [_ [_ B]]. apply in_split in Hu. destruct Hu as [a [b ->]].
    rewrite <- app_assoc in P. simpl in P. specialize (B _ _ _ P y Hy).
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

  Lemma not_ran_v : ran l v = false.
  Proof. destruct (ran l v) eqn:R; [|reflexivity]. exfalso. now apply v_fresh, ran_In. Qed.

  Lemma one_holds : forall x, In x (r_one A) -> holds s x.
  Proof.
    intros x [<-|[]]. lits. exists (yes (Runs v)). split.
    - apply in_map_iff. now exists v.
    - simpl. now rewrite Pos.eqb_refl.
  Qed.

  Lemma first_holds : (forall a, In a A -> ~ In a l) -> forall x, In x (r_first A) -> holds s x.
  Proof.
    intros N x H. apply in_map_iff in H. destruct H as [a [<- Ha]]. lits. this (no (Ran a)).
    destruct (ran l a) eqn:R; [|reflexivity]. exfalso. exact (N a Ha (proj1 (ran_In l a) R)).
  Qed.

  Lemma last_holds : (forall a, In a A -> a = v \/ In a l) -> forall x, In x (r_last A) -> holds s x.
  Proof.
    intros N x H. apply in_flat_map in H. destruct H as [a [Ha [<-|[<-|[]]]]]; lits.
    - destruct (N a Ha) as [->|Hl].
      + this (yes (Runs v)). now rewrite Pos.eqb_refl.
      + this (yes (Ran a)). now rewrite (proj2 (ran_In l a) Hl).
    - destruct (Pos.eqb a v) eqn:E.
      + this (no (Ran a)). apply Pos.eqb_eq in E. subst a. now rewrite not_ran_v.
      + this (no (Runs a)). now rewrite E.
  Qed.

  Lemma all_hold : Forall (holds s) (rows g A w).
  Proof.
    apply Forall_forall. intros x H. unfold rows in H. rewrite !in_app_iff in H.
    repeat match type of H with _ \/ _ => destruct H as [H|H] end.
    - (* order *)
      apply in_flat_map in H. destruct H as [u [_ H]]. apply in_map_iff in H. destruct H as [y [<- Hy]].
      lits. destruct (ran l u) eqn:E.
      + this (yes (Ran y)). apply ran_In in E. now rewrite (proj2 (ran_In l y) (closed u y E Hy)).
      + this (no (Ran u)). now rewrite E.
    - (* the step *)
      pose proof F as C. revert C H. unfold chosen, r_which. case_eq w; [intros _|intros _|intros z K]; intros C H; rewrite !in_app_iff in H;
        [destruct H as [H|H]; [now apply one_holds | now apply first_holds]
        |destruct H as [H|H]; [now apply one_holds | now apply last_holds]|].
      destruct C as [C D]. assert (Z : forall j, in_zone w l j = within z l j) by (intros j; unfold in_zone; now rewrite K).
      destruct H as [H|[H|[H|[H|H]]]].
      + (* now *)
        apply in_map_iff in H. destruct H as [a [<- _]]. lits. destruct (Pos.eqb a v) eqn:E.
        * this (no (Ran a)). apply Pos.eqb_eq in E. subst a. now rewrite not_ran_v.
        * this (no (Runs a)). now rewrite E.
      + (* in *)
        destruct H as [<-|[]]. lits. apply existsb_exists in C. destruct C as [j [J W]].
        exists (yes (Zoned j)). split; [now apply (in_map (fun j => yes (Zoned j))) | simpl; now rewrite Z, W].
      + (* zone *)
        apply in_flat_map in H. destruct H as [j [J H]]. rewrite in_app_iff in H.
        destruct (within z l j) eqn:W.
        * pose proof W as W'. unfold within in W'. apply andb_true_iff in W'. destruct W' as [W1 W2].
          rewrite forallb_forall in W1. apply negb_true_iff in W2.
          destruct H as [H|H]; apply in_map_iff in H; destruct H as [u [<- U]]; lits.
          -- this (yes (Ran u)). now rewrite W1.
          -- this (no (Ran u)). destruct (ran l u) eqn:R; [|reflexivity].
             assert (existsb (ran l) (lack z j) = true) by (apply existsb_exists; eauto). congruence.
        * destruct H as [H|H]; apply in_map_iff in H; destruct H as [u [<- U]]; lits; this (no (Zoned j)); now rewrite Z, W.
      + (* behind *)
        apply in_flat_map in H. destruct H as [u [_ [<-|[<-|[]]]]]; lits.
        * destruct (ran l u) eqn:R; [this (yes (Behind u)) | this (no (Ran u)); now rewrite R].
          apply ran_In in R. rewrite (proj2 (ran_In (l ++ [v]) u)); [reflexivity|]. rewrite in_app_iff. now left.
        * destruct (Pos.eqb u v) eqn:E; [this (yes (Behind u)) | this (no (Runs u)); now rewrite E].
          apply Pos.eqb_eq in E. subst u. rewrite (proj2 (ran_In (l ++ [v]) v)); [reflexivity|]. rewrite in_app_iff. simpl. tauto.
      + (* left *)
        apply in_map_iff in H. destruct H as [j [<- J]]. lits.
        assert (W : within z (l ++ [v]) j = false).
        { destruct (within z (l ++ [v]) j) eqn:W; [|reflexivity].
          assert (existsb (within z (l ++ [v])) (zoned z) = true) by (apply existsb_exists; eauto). congruence. }
        unfold within in W. apply andb_false_iff in W. destruct W as [W|W].
        * assert (Q : exists u, In u (have z j) /\ ran (l ++ [v]) u = false).
          { clear - W. induction (have z j) as [|u us IH]; [discriminate|]. simpl in W. destruct (ran (l ++ [v]) u) eqn:R.
            - destruct (IH W) as [y [Y Ry]]. exists y. simpl. tauto.
            - exists u. simpl. tauto. }
          destruct Q as [u [U R]]. exists (no (Behind u)). split; [|simpl; now rewrite R].
          apply in_app_iff. left. apply in_map_iff. now exists u.
        * apply negb_false_iff in W. apply existsb_exists in W. destruct W as [u [U R]].
          apply ran_In in R. rewrite in_app_iff in R. destruct R as [R|[<-|[]]].
          -- exists (yes (Ran u)). split; [|simpl; now rewrite (proj2 (ran_In l u) R)].
             apply in_app_iff. right. apply in_flat_map. exists u. simpl. tauto.
          -- exists (yes (Runs v)). split; [|simpl; now rewrite Pos.eqb_refl].
             apply in_app_iff. right. apply in_flat_map. exists v. simpl. tauto.
    - (* alone *)
      apply in_flat_map in H. destruct H as [a [_ H]]. apply in_flat_map in H. destruct H as [b [_ H]].
      destruct (Pos.eqb a b) eqn:E; [contradiction|]. destruct H as [<-|[]]. lits.
      destruct (Pos.eqb a v) eqn:Ea.
      + this (no (Runs b)). apply Pos.eqb_eq in Ea. subst a. rewrite Pos.eqb_sym in E. now rewrite E.
      + this (no (Runs a)). now rewrite Ea.
    - (* ready *)
      apply in_flat_map in H. destruct H as [a [_ H]]. apply in_map_iff in H. destruct H as [y [<- Hy]]. lits.
      destruct (Pos.eqb a v) eqn:E.
      + this (yes (Ran y)). apply Pos.eqb_eq in E. subst a. now rewrite (proj2 (ran_In l y) (ready y Hy)).
      + this (no (Runs a)). now rewrite E.
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

(** What a formula needs to speak of a step of every order: some nodes, or zones of which one has
    the first state, and none the last. *)
Definition speaks g A w :=
  match w with
  | Leaving z => existsb (fun j => none (have z j)) (zoned z) = true /\ forall j, In j (zoned z) -> lack z j <> [] /\ incl (lack z j) A
  | _ => A <> []
  end /\ incl A (nodes g).

Lemma first_state : forall z, existsb (fun j => none (have z j)) (zoned z) = true -> existsb (within z []) (zoned z) = true.
Proof.
  intros z H. apply existsb_exists in H. destruct H as [j [J N]]. apply existsb_exists. exists j. split; [assumption|].
  unfold within. destruct (have z j); [|discriminate]. simpl. apply negb_true_iff.
  induction (lack z j); [reflexivity | assumption].
Qed.

Lemma last_state : forall z p, (forall j, In j (zoned z) -> lack z j <> [] /\ incl (lack z j) p) -> existsb (within z p) (zoned z) = false.
Proof.
  intros z p H. destruct (existsb (within z p) (zoned z)) eqn:E; [|reflexivity]. exfalso.
  apply existsb_exists in E. destruct E as [j [J W]]. destruct (H j J) as [N I]. unfold within in W. apply andb_true_iff in W.
  destruct W as [_ W]. apply negb_true_iff in W. destruct (lack z j) as [|u us]; [now apply N|].
  simpl in W. rewrite (proj2 (ran_In p u)) in W; [discriminate|]. apply I. now left.
Qed.

(** Every order has a step of which a formula speaks. *)
Lemma somewhere : forall g A w p, speaks g A w -> is_order g p -> exists l v r, p = l ++ v :: r /\ In v A /\ chosen w A l v.
Proof.
  intros g A w p [S IA] [_ [N _]].
  assert (I : forall a, In a A -> In a p) by (intros a Ha; apply N; auto). clear N IA.
  destruct w as [| |z].
  - assert (E : exists a, In a A /\ In a p) by (destruct A as [|a A]; [contradiction|]; exists a; simpl; auto with datatypes).
    clear I S. revert E. induction p as [|x p IH]; intros [a [Ha Hp]]; [contradiction|].
    destruct (in_dec Pos.eq_dec x A) as [Hx|Hx].
    + exists [], x, p. repeat split; auto. intros b _ [].
    + destruct IH as [l [v [r [-> [Hv F]]]]].
      * exists a. split; auto. destruct Hp as [->|Hp]; [contradiction|assumption].
      * exists (x :: l), v, r. repeat split; auto. intros b Hb [->|H]; [contradiction|]. exact (F b Hb H).
  - assert (E : exists a, In a A /\ In a p) by (destruct A as [|a A]; [contradiction|]; exists a; simpl; auto with datatypes).
    clear S. revert E I. induction p as [|x p IH] using rev_ind; intros [a [Ha Hp]] I; [contradiction|].
    destruct (in_dec Pos.eq_dec x A) as [Hx|Hx].
    + exists p, x, []. repeat split; auto. intros b Hb. specialize (I b Hb). rewrite in_app_iff in I.
      destruct I as [I|[I|[]]]; auto.
    + destruct IH as [l [v [r [-> [Hv F]]]]].
      * exists a. split; auto. rewrite in_app_iff in Hp. destruct Hp as [Hp|[->|[]]]; [assumption|contradiction].
      * intros b Hb. specialize (I b Hb). rewrite in_app_iff in I. destruct I as [I|[->|[]]]; [assumption|contradiction].
      * exists l, v, (r ++ [x]). rewrite <- app_assoc. repeat split; auto.
  - destruct S as [B S].
    assert (L : existsb (within z p) (zoned z) = false) by (apply last_state; intros j J; destruct (S j J); split; [assumption | intros u U; auto]).
    assert (Leave : forall m, existsb (within z m) (zoned z) = true -> forall q, existsb (within z (m ++ q)) (zoned z) = false ->
      exists l v r, m ++ q = l ++ v :: r /\ chosen (Leaving z) A l v).
    { intros m Hm q. revert m Hm. induction q as [|v q IH]; intros m Hm Hq; [rewrite app_nil_r in Hq; congruence|].
      destruct (existsb (within z (m ++ [v])) (zoned z)) eqn:E.
      - specialize (IH (m ++ [v]) E). rewrite <- app_assoc in IH. exact (IH Hq).
      - exists m, v, q. repeat split; auto. }
    destruct (Leave [] (first_state z B) p L) as [l [v [r [P C]]]]. exists l, v, r. split; [assumption|]. split; [|assumption].
    destruct C as [C D]. apply existsb_exists in C. destruct C as [j [J W]]. destruct (S j J) as [_ In_A]. unfold within in W.
    apply andb_true_iff in W. destruct W as [W1 W2]. rewrite forallb_forall in W1.
    destruct (existsb (Pos.eqb v) (lack z j)) eqn:V.
    + apply existsb_exists in V. destruct V as [u [U E]]. apply Pos.eqb_eq in E. subst u. now apply In_A.
    + exfalso. assert (existsb (within z (l ++ [v])) (zoned z) = true); [|congruence].
      apply existsb_exists. exists j. split; [assumption|]. unfold within. apply andb_true_iff. split.
      * apply forallb_forall. intros u U. apply ran_In. apply in_app_iff. left. apply ran_In. auto.
      * apply negb_true_iff. apply negb_true_iff in W2. destruct (existsb (ran (l ++ [v])) (lack z j)) eqn:R; [|reflexivity].
        apply existsb_exists in R. destruct R as [u [U R]]. apply ran_In in R. apply in_app_iff in R. destruct R as [R|[<-|[]]].
        -- assert (existsb (ran l) (lack z j) = true); [|congruence]. apply existsb_exists. exists u. split; [assumption | now apply ran_In].
        -- assert (existsb (Pos.eqb v) (lack z j) = true); [|congruence]. apply existsb_exists. exists v. split; [assumption | apply Pos.eqb_refl].
Qed.

(** Let B be a lower bound on the objective over all values that keep the constraints. Then no
    order of the graph, whatever pairs its nodes take, has all its loads below B. *)
Theorem no_order_is_below : forall g A w B,
  NoDup A -> speaks g A w -> (forall v, NoDup (pairs g v)) ->
  (forall s, Forall (holds s) (rows g A w) -> B <= objective g A s) ->
  forall p taken peak, is_order g p ->
  (forall l v r, p = l ++ v :: r -> may_take g l v (taken v) /\ load g l v (taken v) <= peak) ->
  B <= peak.
Proof.
  intros g A w B NA S NP Bound p taken peak O Peak.
  destruct (somewhere g A w p S O) as [l [v [r [P [Hv F]]]]].
  destruct (Peak l v r P) as [T L].
  apply Z.le_trans with (load g l v (taken v)); [|assumption].
  rewrite <- (the_load g l v A w (taken v) NA Hv (NP v) T).
  apply Bound. now apply (all_hold g p l r v A w (taken v)).
Qed.

Print Assumptions no_order_is_below.
