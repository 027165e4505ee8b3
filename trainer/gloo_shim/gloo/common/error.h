// See gloo/context.h: declarations only.
#pragma once

#include <gloo/context.h>
