# brew install --build-from-source ./packaging/homebrew/onnxmem.rb
#
# url and sha256 are those of a release's sources; until there is one, --HEAD builds main.
class Onnxmem < Formula
  desc "Make neural networks in ONNX files need less memory, and prove it"
  homepage "https://github.com/onnxmem/onnxmem"
  url "https://github.com/onnxmem/onnxmem/archive/refs/tags/v1.0.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"
  head "https://github.com/onnxmem/onnxmem.git", branch: "main"

  depends_on "go" => :build

  def install
    ENV["CGO_ENABLED"] = "0"
    system "go", "build", *std_go_args(ldflags: "-s -w -X main.version=v#{version}"), "./cmd/onnxmem"
  end

  test do
    system bin/"onnxmem", "model", "tiny_resnet8", "model.onnx"
    system bin/"onnxmem", "optimize", "model.onnx", "planned.onnx"
    assert_match "valid", shell_output("#{bin}/onnxmem verify planned.onnx")
  end
end
