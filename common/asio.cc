// The functions of Boost.Asio, compiled once instead of in each file that includes its headers
// (BOOST_ASIO_SEPARATE_COMPILATION).
#include <boost/asio/impl/src.hpp>
