// The pass of main.go in C++, over libonnxmem: memory_pass <four.mlir
#include <onnxmem.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

constexpr int64_t alignment = 64;

// Plan is the buffers of a function, by the lines at which they are allocated.
struct Plan {
	std::vector<int64_t> lower, upper, size, offsets;
	onnxmem_packed packed{};

	void pack() {
		onnxmem_buffers b{};
		b.struct_size = sizeof b;
		b.count = size.size();
		b.lower = lower.data();
		b.upper = upper.data();
		b.size = size.data();
		b.common_alignment = alignment;
		offsets.resize(size.size());
		char error[300];
		if (onnxmem_pack(&b, nullptr, offsets.data(), &packed, nullptr, nullptr, error, sizeof error) != ONNXMEM_OK)
			throw std::runtime_error(error);
	}
};

// bytes is the size of a memref of integers or floats, such as 64x16xf32.
int64_t bytes(const std::string &shape) {
	size_t at = shape.rfind('x') + 1;
	int64_t bits = std::stoll(shape.substr(shape.find_first_of("0123456789", at)));
	std::istringstream dims(shape.substr(0, at));
	for (std::string d; std::getline(dims, d, 'x');)
		bits *= std::stoll(d);
	return (bits + 7) / 8;
}

void run() {
	Plan plan;
	std::vector<std::string> lines, names;
	std::unordered_map<std::string, size_t> of;
	std::unordered_map<size_t, size_t> makes;
	std::unordered_map<size_t, bool> deleted;
	for (std::string line; std::getline(std::cin, line); lines.push_back(line)) {
		size_t step = lines.size();
		std::istringstream words(line);
		std::string first, second, third;
		words >> first >> second >> third;
		if (third == "memref.alloc()") {
			size_t begin = line.rfind("memref<") + 7;
			of[first] = makes[step] = names.size();
			names.push_back(first);
			plan.size.push_back(bytes(line.substr(begin, line.rfind('>') - begin)));
			plan.lower.push_back(static_cast<int64_t>(step));
			plan.upper.push_back(static_cast<int64_t>(step) + 1);
		} else if (first == "memref.dealloc") {
			plan.upper[of.at(second)] = static_cast<int64_t>(step);
			deleted[step] = true;
		}
	}
	auto began = std::chrono::steady_clock::now();
	plan.pack();
	std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
	std::fprintf(stderr, "%zu buffers, arena %lld bytes, none is below %lld, %.2f ms\n", names.size(),
		static_cast<long long>(plan.packed.arena), static_cast<long long>(plan.packed.bound), took.count());
	std::string arena = "memref<" + std::to_string(plan.packed.arena) + "xi8>";
	bool begun = false;
	for (size_t step = 0; step < lines.size(); step++) {
		auto made = makes.find(step);
		if (made == makes.end()) {
			if (!deleted.count(step))
				std::cout << lines[step] << '\n';
			continue;
		}
		if (!begun)
			std::cout << "  %arena = memref.alloc() {alignment = " << alignment << " : i64} : " << arena << '\n';
		begun = true;
		std::cout << "  " << names[made->second] << " = memref.view %arena[" << plan.offsets[made->second] << "][] : " << arena << " to "
				  << lines[step].substr(lines[step].rfind("memref<")) << '\n';
	}
}

} // namespace

int main(int argc, char **) {
	try {
		if (argc > 1)
			throw std::runtime_error("expected no arguments, and the list on standard input");
		run();
	} catch (const std::exception &e) {
		std::cerr << "memory_pass: " << e.what() << '\n';
		return 1;
	}
}
