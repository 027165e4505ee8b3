// A training's curves as TensorBoard reads them: one event file in a directory for each start.
//
// Written on a thread, as a line file is (disk/line_file.h): no disk holds up the caller. A disk
// that is full, at the start or later, is said once and the training continues without curves; a
// directory that cannot be one is an error at the start, since that does not pass by itself.
//
// TensorBoard reads the files of a directory in the order of their names, and never one that comes
// before the one it reads. So a new file is named by a second that is later than those of all that
// are there, whatever this machine's clock says and however soon a restart comes. The file begins
// with the step from which on older ones are void: no step that is trained twice is shown twice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "common/files.h"
#include "common/result.h"
#include "trainer/disk/line_file.h"
#include "trainer/tensorboard/curve_records.h"

namespace ddprun {

// Makes `directory`; an empty name: nothing is written. `step`: the last step whose points in older
// files are valid. kInvalid: this directory cannot be used; a file system that hangs is no error.
Result<LineFile> OpenCurves(const std::filesystem::path& directory, std::uint64_t step);

// A line of that file, of now.
std::string CurveRecord(std::uint64_t step, std::span<const Scalar> scalars);

// The work of OpenCurves' thread: events.out.tfevents.<second>.<host>.<pid>.<n>, a new file in
// `directory`. kUnavailable: the disk is full or fails; kInvalid: anything else.
Result<UniqueFd> MakeCurveFile(const std::filesystem::path& directory, std::uint64_t second);

}  // namespace ddprun
