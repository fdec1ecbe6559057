// AttendanceFile: who is there in which round of local updates, from a file.
//
// Public. A line for each round, in their order: how many steps were made
// before it, and the numbers of the replicas that are there, from 0. "late"
// behind one: it is drawn for the round, and not in its mean.
//
//   0,0,1,3
//   30,1,2 late,3
//   60
//
// Of the last round there is nobody. FitState::contributors says of a run that
// was who was in its rounds.

#ifndef RINGLET_IO_DATA_ATTENDANCE_FILE_H_
#define RINGLET_IO_DATA_ATTENDANCE_FILE_H_

#include <memory>
#include <string>

#include "../../core/base/status.h"
#include "../../core/model/attendance.h"

namespace ringlet {

// Errors name the file and the line, later ones too: of a fit whose rounds are
// not those of the file.
Status ReadAttendance(const std::string& path,
                      std::shared_ptr<const Attendance>* attendance);

}  // namespace ringlet

#endif  // RINGLET_IO_DATA_ATTENDANCE_FILE_H_
