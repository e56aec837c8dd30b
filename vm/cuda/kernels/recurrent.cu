// Recurrent layers, step by step: RNN, GRU and LSTM. The products of the input with W are
// there already, in scratch; a launch is a step, or half a step of a GRU whose reset gate
// acts on the state.
#include "activation.cuh"
#include "index.cuh"
#include "rows.cuh"

typedef ELEMENT T;
typedef Compute<T> C;

static const int ROWS = 8; // batch elements that a warp computes a unit of

enum Function { sigmoid, tangent, relu, softsign, softplus, affine, leaky, thresholded, scaled_tangent, hard_sigmoid, elu };

struct Activation {
	int function;
	float alpha, beta;
	__device__ C of(C x) const {
		C a = (C)alpha, b = (C)beta;
		switch (function) {
		case sigmoid: return Sigmoid(x);
		case tangent: return Tanh(x);
		case relu: return Relu(x);
		case softsign: return Softsign(x);
		case softplus: return Softplus(x);
		case affine: return a * x + b;
		case leaky: return LeakyRelu(x, a);
		case thresholded: return ThresholdedRelu(x, a);
		case scaled_tangent: return a * Tanh(b * x);
		case hard_sigmoid: return HardSigmoid(x, a, b);
		}
		return Elu(x, a);
	}
};

struct Layer {
	int gates, batch, hidden, directions, steps;
	int batchFirst; // in Y and the states at the ends
	int couple;     // the LSTM forgets what the input gate does not take
	int wide;       // four elements of R lie at a multiple of their size
	float clip;     // 0: none
	Activation act[2][3]; // by direction
	// Parameters are not indexed by what only a thread knows: that would copy them.
	__device__ Activation activation(int d, int i) const { return d ? act[1][i] : act[0][i]; }
	__device__ C cut(C x) const { return clip > 0 ? Max(-(C)clip, Min((C)clip, x)) : x; }
	// state is the place of a state at the ends.
	__device__ i64 state(int d, int b, int unit) const { return (i64)(batchFirst ? b * directions + d : d * batch + b) * hidden + unit; }
	// scratch is the place of a state between the steps.
	__device__ i64 scratch(int d, int b, int unit) const { return (i64)(d * batch + b) * hidden + unit; }
};

// Step is where each direction is: the step in time, and its sums in scratch.
struct Step {
	int at[2];
	i64 sums[2];
	__device__ int time(int d) const { return d ? at[1] : at[0]; }
	__device__ i64 first(int d) const { return d ? sums[1] : sums[0]; }
};

// Tensors are what a step reads and writes, by the names of ONNX. States between the steps
// are [direction, batch, hidden].
struct Tensors {
	T *y;
	const T *r, *bias, *peep;
	const int *lengths;
};

// goes_on reports whether a sequence has a step, and reports a length that is none.
static __device__ __forceinline__ bool goes_on(const Layer &s, const Tensors &t, const Faults &faults, int b, int at) {
	if (!t.lengths) return true;
	int n = t.lengths[b];
	if (n < 0 || n > s.steps) {
		faults.report(b);
		return false;
	}
	return at < n;
}

// rows sums up the values of each of a warp's lanes. It gives each lane the sum of one of
// them: that of batch element row_of_lane.
static __device__ __forceinline__ C rows(C (&v)[ROWS]) {
	int lane = threadIdx.x % 32;
#pragma unroll
	for (int d = 16, n = ROWS / 2; n > 0; d /= 2, n /= 2) {
#pragma unroll
		for (int i = 0; i < n; i++) {
			C give = lane & d ? v[i] : v[i + n], keep = lane & d ? v[i + n] : v[i];
			v[i] = keep + exchange(give, d);
		}
	}
	C sum = v[0];
	sum += exchange(sum, 2);
	return sum + exchange(sum, 1);
}
static __device__ __forceinline__ int row_of_lane() { return threadIdx.x % 32 / 4; }

// Unit is what a warp computes: a unit of a direction for ROWS batch elements. A lane
// finishes one of them, if leads is set.
struct Unit {
	int unit, d, first, b;
	bool real, leads;
	__device__ explicit Unit(const Layer &s) {
		unit = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
		d = blockIdx.z, first = blockIdx.y * ROWS, b = first + row_of_lane();
		real = unit < s.hidden;
		leads = real && threadIdx.x % 4 == 0 && b < s.batch;
	}
	// element is unit e of all states, for a thread that works alone.
	static __device__ Unit element(const Layer &s, int e) {
		Unit u;
		int row = e / s.hidden;
		u.unit = e - row * s.hidden, u.d = row / s.batch, u.b = row - u.d * s.batch;
		u.first = u.b, u.real = u.leads = true;
		return u;
	}

private:
	__device__ Unit() {}
};

// dots computes G gates of a unit from states: r are the rows of R for the first one.
template <int G> static __device__ __forceinline__ void dots(C (&out)[G], const Layer &s, const Unit &own, const T *r, const C *h) {
	C sum[G][ROWS] = {};
	i64 gate = (i64)s.hidden * s.hidden;
	h += s.scratch(own.d, own.first, 0);
	int lane = threadIdx.x % 32;
	if (s.wide) {
		for (int k = 4 * lane; k < s.hidden; k += 128) {
			Pack<T> w[G];
#pragma unroll
			for (int g = 0; g < G; g++) w[g] = *(const Pack<T> *)(r + g * gate + k);
#pragma unroll
			for (int b = 0; b < ROWS; b++) {
				Pack<C> x = *(const Pack<C> *)(h + (i64)(own.first + b < s.batch ? b : 0) * s.hidden + k);
#pragma unroll
				for (int g = 0; g < G; g++)
#pragma unroll
					for (int i = 0; i < 4; i++) sum[g][b] += load(w[g].v + i) * x.v[i];
			}
		}
	} else {
		for (int k = lane; k < s.hidden; k += 32) {
			C w[G];
#pragma unroll
			for (int g = 0; g < G; g++) w[g] = load(r + g * gate + k);
#pragma unroll
			for (int b = 0; b < ROWS; b++) {
				C x = h[(i64)(own.first + b < s.batch ? b : 0) * s.hidden + k];
#pragma unroll
				for (int g = 0; g < G; g++) sum[g][b] += w[g] * x;
			}
		}
	}
#pragma unroll
	for (int g = 0; g < G; g++) out[g] = rows(sum[g]);
}

// Gates adds up what makes a gate of a unit: the product with the input, that with the
// state, and the biases.
struct Gates {
	const T *bias;
	const C *sums;
	int hidden, unit, all;
	__device__ Gates(const Layer &s, const Tensors &t, const Step &p, const Unit &own, const C *x) {
		all = s.gates * s.hidden, hidden = s.hidden, unit = own.unit;
		bias = t.bias ? t.bias + (i64)own.d * 2 * all : nullptr;
		sums = x + (p.first(own.d) + (i64)own.b * all);
	}
	__device__ C input(int g) const { return sums[g * hidden + unit] + (bias ? (C)load(bias + g * hidden + unit) : (C)0); }
	__device__ C state(int g, C dot) const { return dot + (bias ? (C)load(bias + all + g * hidden + unit) : (C)0); }
	__device__ C of(int g, C dot) const { return input(g) + state(g, dot); }
};

// write writes a state and the output of a step.
static __device__ __forceinline__ void write(const Layer &s, const Tensors &t, const Step &p, const Unit &own, C *next, C h, bool on) {
	next[s.scratch(own.d, own.b, own.unit)] = h;
	if (!t.y) return;
	i64 at = p.time(own.d), row = s.batchFirst ? ((i64)own.b * s.steps + at) * s.directions + own.d : (at * s.directions + own.d) * s.batch + own.b;
	store(t.y + (row * s.hidden + own.unit), on ? h : (C)0);
}

#define OWN \
	Unit own(s); \
	if (!own.real) return; \
	const T *r = t.r + ((i64)own.d * s.gates * s.hidden + own.unit) * s.hidden;
#define LEADS \
	if (!own.leads) return; \
	bool on = goes_on(s, t, faults, own.b, p.time(own.d)); \
	i64 place = s.scratch(own.d, own.b, own.unit); \
	Gates gates(s, t, p, own, x); \
	Activation f = s.activation(own.d, 0), g = s.activation(own.d, 1);
#define PARAMS const C *x, const C *h, C *next

KERNEL(rnn, (PARAMS, Tensors t, Layer s, Step p, Faults faults)) {
	OWN
	C dot[1];
	dots(dot, s, own, r, h);
	LEADS
	write(s, t, p, own, next, on ? f.of(s.cut(gates.of(0, dot[0]))) : h[place], on);
}

// lstm_unit computes the next state and cell of a unit, which has the gates i, o, f, c and the
// peepholes i, o, f.
static __device__ __forceinline__ C lstm_unit(const Layer &s, const Tensors &t, const Unit &own, const Gates &gates, const C (&dot)[4], C *kept) {
	Activation f = s.activation(own.d, 0), g = s.activation(own.d, 1), last = s.activation(own.d, 2);
	C cell = *kept, in = gates.of(0, dot[0]), out = gates.of(1, dot[1]), forget = gates.of(2, dot[2]);
	const T *peep = t.peep ? t.peep + ((i64)own.d * 3 * s.hidden + own.unit) : nullptr;
	if (peep) in += load(peep) * cell, forget += load(peep + 2 * s.hidden) * cell;
	in = f.of(s.cut(in));
	forget = s.couple ? 1 - in : f.of(s.cut(forget));
	cell = forget * cell + in * g.of(s.cut(gates.of(3, dot[3])));
	if (peep) out += load(peep + s.hidden) * cell;
	*kept = cell;
	return f.of(s.cut(out)) * last.of(cell);
}

KERNEL(lstm, (PARAMS, C *cells, Tensors t, Layer s, Step p, Faults faults)) {
	OWN
	C dot[4];
	dots(dot, s, own, r, h);
	LEADS
	write(s, t, p, own, next, on ? lstm_unit(s, t, own, gates, dot, cells + place) : h[place], on);
}

// lstm_of_dots is a step of an LSTM whose products with the states are there already:
// [direction, batch, gate, unit].
KERNEL(lstm_of_dots, (const C *x, const C *dots, C *h, C *cells, Tensors t, Layer s, Step p)) {
	int n = s.directions * s.batch * s.hidden;
	for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < n; e += gridDim.x * blockDim.x) {
		Unit own = Unit::element(s, e);
		const C *d = dots + ((i64)(e / s.hidden) * 4 * s.hidden + own.unit);
		C dot[4] = {d[0], d[s.hidden], d[2 * s.hidden], d[3 * s.hidden]};
		write(s, t, p, own, h, lstm_unit(s, t, own, Gates(s, t, p, own, x), dot, cells + e), true);
	}
}

// mixed is the state of a GRU: gate z says how much of it stays.
static __device__ __forceinline__ C mixed(C z, C candidate, C state) { return (1 - z) * candidate + z * state; }

// gru_before has the gates z, r, h, and resets the product with the state.
KERNEL(gru_before, (PARAMS, Tensors t, Layer s, Step p, Faults faults)) {
	OWN
	C dot[3];
	dots(dot, s, own, r, h);
	LEADS
	C state = h[place];
	if (on) {
		C z = f.of(s.cut(gates.of(0, dot[0]))), reset = f.of(s.cut(gates.of(1, dot[1])));
		state = mixed(z, g.of(s.cut(gates.input(2) + reset * gates.state(2, dot[2]))), state);
	}
	write(s, t, p, own, next, state, on);
}

// gru_gates computes the gates of a step: z, and the state after its reset.
KERNEL(gru_gates, (PARAMS, C *kept, Tensors t, Layer s, Step p, Faults faults)) {
	OWN
	C dot[2];
	dots(dot, s, own, r, h);
	LEADS
	kept[place] = on ? f.of(s.cut(gates.of(0, dot[0]))) : (C)1;
	next[place] = f.of(s.cut(gates.of(1, dot[1]))) * h[place];
}

// gru_state computes the state of a step from what gru_gates left in h and kept.
KERNEL(gru_state, (PARAMS, const C *kept, Tensors t, Layer s, Step p, Faults faults)) {
	OWN
	C dot[1];
	dots(dot, s, own, r + 2 * (i64)s.hidden * s.hidden, h);
	LEADS
	C state = next[place];
	if (on) state = mixed(kept[place], g.of(s.cut(gates.of(2, dot[0]))), state);
	write(s, t, p, own, next, state, on);
}

// begin copies the states at the beginning, or zeros, to where the steps have them, and
// finish those of the end to the outputs.
KERNEL(begin, (C *state, const T *from, Layer s)) {
	int n = s.directions * s.batch * s.hidden;
	for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < n; e += gridDim.x * blockDim.x) {
		int row = e / s.hidden, unit = e - row * s.hidden;
		state[e] = from ? (C)load(from + s.state(row / s.batch, row % s.batch, unit)) : (C)0;
	}
}
KERNEL(finish, (T *to, const C *state, Layer s)) {
	int n = s.directions * s.batch * s.hidden;
	for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < n; e += gridDim.x * blockDim.x) {
		int row = e / s.hidden, unit = e - row * s.hidden;
		store(to + s.state(row / s.batch, row % s.batch, unit), state[e]);
	}
}
