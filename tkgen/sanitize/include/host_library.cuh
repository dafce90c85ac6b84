/**
 * Of the standard library what host sides of kernels use most: declared and never run, so that they can be parsed.
 */
#pragma once

namespace std {

template <typename T> struct unique_ptr {
    unique_ptr(T *pointer = nullptr);
    T *get() const;
    T *release();
    void reset(T *pointer = nullptr);
    T &operator*() const;
    T *operator->() const;
    explicit operator bool() const;
};
template <typename T> struct unique_ptr<T[]> {
    unique_ptr(T *pointer = nullptr);
    T *get() const;
    T *release();
    void reset(T *pointer = nullptr);
    T &operator[](size_t i) const;
    explicit operator bool() const;
};
template <typename T, typename... A> unique_ptr<T> make_unique(A &&...arguments);
template <typename T> struct vector {
    using value_type = T;
    vector();
    explicit vector(size_t, const T & = T());
    template <typename I> vector(I, I);
    vector(const vector &);
    vector &operator=(const vector &);
    ~vector();
    T &operator[](size_t);
    const T &operator[](size_t) const;
    T *data();
    const T *data() const;
    T *begin();
    T *end();
    const T *begin() const;
    const T *end() const;
    T &front();
    T &back();
    size_t size() const;
    bool empty() const;
    void push_back(const T &);
    template <typename... A> T &emplace_back(const A &...);
    void resize(size_t, const T & = T());
    void reserve(size_t);
    void assign(size_t, const T &);
    void clear();
};

struct string {
    string(const char * = "");
    string(const string &);
    string &operator=(const string &);
    ~string();
    const char *c_str() const;
    size_t size() const;
    bool empty() const;
    string &operator+=(const string &);
    bool operator==(const string &) const;
};
string operator+(const string &, const string &);
template <typename T> string to_string(T);

struct ostream {
    template <typename T> ostream &operator<<(const T &);
    ostream &operator<<(ostream &(*)(ostream &));
};
extern ostream cout, cerr;
ostream &endl(ostream &);
struct setprecision {
    setprecision(int);
};

struct exception {
    const char *what() const;
};
struct runtime_error : exception {
    runtime_error(const string &);
};

template <typename I, typename T> void fill(I, I, const T &);
template <typename I, typename F> void generate(I, I, F);
template <typename I> void iota(I, I, int);

struct random_device {
    unsigned operator()();
};
struct mt19937 {
    mt19937(unsigned = 0);
    unsigned operator()();
};
template <typename T> struct uniform_real_distribution {
    uniform_real_distribution(T = 0, T = 1);
    template <typename G> T operator()(G &);
};
template <typename T> struct normal_distribution {
    normal_distribution(T = 0, T = 1);
    template <typename G> T operator()(G &);
};
template <typename T> struct uniform_int_distribution {
    uniform_int_distribution(T = 0, T = __INT_MAX__);
    template <typename G> T operator()(G &);
};

} // namespace std
