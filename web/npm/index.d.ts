/** What the command's flags say, named as they are, with capitals for dashes: `noInplace: true`. */
export interface Options {
  /** The file's name, for messages and plans. */
  name?: string;
  /** The planned file's name, for plans. */
  out?: string;
  /** Lengths of dimensions: a number, or a range such as "1..8". */
  dim?: Record<string, number | string>;
  train?: boolean;
  loss?: string;
  optimizer?: string;
  autocast?: "bf16" | "fp16";
  lora?: number;
  /** A size such as "8GiB", or a part of the best order's peak such as "60%". */
  limit?: string;
  frontier?: boolean;
  effort?: "fast" | "default" | "max";
  /** Further flags, as on the command line. */
  args?: string[];
  signal?: AbortSignal;
  onProgress?: (progress: { work: string; note: string }) => void;
  [flag: string]: unknown;
}

/** The figures, as `onnxmem optimize --json` prints them. */
export interface Summary {
  peak_bytes: number;
  program_order_peak_bytes: number;
  lower_bound_bytes: number;
  arena_bytes: number;
  resident_bytes: number;
  total_bytes: number;
  [figure: string]: unknown;
}

export interface Planned {
  model: Uint8Array;
  /** The plan, as JSON text. */
  plan: string;
  summary: Summary;
  /** The summary in words. */
  text: string;
  notes: string[];
  /** Constants that the planned model expects beside it, if it has external data. */
  folded?: Uint8Array;
}

type Bytes = ArrayBuffer | ArrayBufferView;

export function optimize(model: Bytes, options?: Options): Promise<Planned>;
export function inspect(model: Bytes, options?: Options): Promise<Record<string, unknown> & { text: string }>;
export function explain(model: Bytes, options?: Options): Promise<Record<string, unknown> & { text: string }>;
export function order(problem: Bytes | string | object, options?: Options): Promise<{
  order: number[]; peak_bytes: number; lower_bound_bytes: number; optimal: boolean; program_order_peak_bytes: number;
}>;
export function pack(buffers: Bytes | string | object, options?: Options): Promise<{
  offsets: number[]; names: string[]; arena_bytes: number; lower_bound_bytes: number; optimal: boolean;
}>;

/** What the command would print, with the exit status that it would have. */
export class OnnxmemError extends Error {
  status: number;
}
